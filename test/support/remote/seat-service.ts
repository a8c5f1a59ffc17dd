import path from "node:path";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { testSettings } from "../test-settings.ts";
import { LocalPlace } from "./local-place.ts";

// A service with seats elsewhere as a process of its own, which a test kills: `node seat-service.ts ORDER`. It prints a
// line of JSON when it is up. Each line of JSON on its stdin has it print one more: with `stop` it stops, else it says
// which agents it has begun and which it has taken over.

export type SeatServiceOrder = {
  readonly directory: string;
  readonly folder: string;
  readonly graceMs: number;
  readonly flags: Readonly<Record<string, unknown>>;
  /** Deployed at the start; null for what is deployed already. */
  readonly app: string | null;
};

const order = JSON.parse(process.argv[2] ?? "") as SeatServiceOrder;
const place = new LocalPlace({ folder: order.folder });
const dataDir = path.join(order.directory, "data");
const settings = testSettings({ dataDir, apiPort: 0, basePort: 0, ...order.flags });
const log = createLog(process.env["SEAT_SERVICE_LOG"] === undefined ? "silent" : "debug");
const service = await startService(settings, { log, seats: { place, graceMs: order.graceMs } });
if (order.app !== null) await service.install(order.app);

const tell = (said: object): void => void process.stdout.write(`${JSON.stringify(said)}\n`);
process.stdin.setEncoding("utf8").on("data", (text: string) => {
  for (const line of text.trim().split("\n")) {
    if (line === "stop") void service.stop().then(() => process.exit());
    else tell({ begun: place.seats.map(({ pid }) => pid), adopted: place.adopted });
  }
});
const { projectId, token } = service.owner;
tell({ url: `${service.apiUrl}/v4/${projectId}/app`, baseUrl: service.baseUrl, projectId, token });
