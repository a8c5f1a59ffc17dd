import { readSettings } from "../../src/config/settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { PeerListener } from "../../src/nodes/peer-listener.ts";
import { endWithParent } from "../child-side.ts";
import { benchIdentity, beside } from "./bench-node.ts";

// A service that has an app, and a listener for other nodes: `node owner-child.ts SECRET DATA_DIR APP_FOLDER`. When the
// app is deployed it prints one line: {"url", "token", "peer"}.

const [secret = "", dataDir = "", folder = ""] = process.argv.slice(2);
const log = createLog("silent");
const identity = await benchIdentity(secret);
const listener = await PeerListener.listen({ identity, host: "127.0.0.1", port: 0, log });
const peer = { id: identity.nodeId, url: `https://127.0.0.1:${listener.port}` };
const { settings } = readSettings({
  flags: { dataDir, apiPort: "0", basePort: "0", maxConnections: "10000", isolation: "none" },
  env: {},
});
const service = await startService(settings, { log, others: beside(identity, null) });
endWithParent(() => service.stop());
listener.route({ ...service.peerRoutes, own: async () => null });
const { app } = await service.install(folder);
const url = `${service.apiUrl}/v4/${app.projectId}/${app.name}/run`;
console.log(JSON.stringify({ url, token: service.owner.token, peer }));
