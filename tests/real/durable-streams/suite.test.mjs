// The public conformance tests of the Durable Streams protocol, unchanged. Subscriptions are not part of this server.

import assert from "node:assert/strict";
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

const { STREAMS: baseUrl } = process.env;
assert.ok(baseUrl, "STREAMS is not set: this suite is run by `cargo test --test real`");
runConformanceTests({ baseUrl, longPollTimeoutMs: 20_000 });
