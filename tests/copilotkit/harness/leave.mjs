// A tab never stops looking for a server that is gone: the process exits anyway when all cases are done.

import { after } from "node:test";

const TO_REPORT_MS = 500;

after(() => void setTimeout(() => process.exit(), TO_REPORT_MS));
