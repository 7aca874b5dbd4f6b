// A tab that looks for a server which is gone does so for ever: when all cases are through, the process leaves anyway.

import { after } from "node:test";

const TO_REPORT_MS = 500;

after(() => void setTimeout(() => process.exit(), TO_REPORT_MS));
