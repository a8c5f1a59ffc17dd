import { readSettings } from "../../src/config/settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import type { Peer } from "../../src/nodes/peers.ts";
import { endWithParent } from "../child-side.ts";
import { benchIdentity, beside } from "./bench-node.ts";

// A service that has no app and passes every call on: `node front-child.ts SECRET DATA_DIR PEER`. When it is up it prints
// one line: {"url"}.

const [secret = "", dataDir = "", peer = ""] = process.argv.slice(2);
const owner = JSON.parse(peer) as Peer;
const { settings } = readSettings({
  flags: { dataDir, apiPort: "0", basePort: "0", maxConnections: "10000", isolation: "none" },
  env: {},
});
const others = beside(await benchIdentity(secret), owner);
const service = await startService(settings, { log: createLog("silent"), others });
endWithParent(() => service.stop());
console.log(JSON.stringify({ url: service.apiUrl }));
