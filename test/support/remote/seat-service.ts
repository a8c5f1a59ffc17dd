import path from "node:path";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { testSettings } from "../test-settings.ts";
import { LocalPlace } from "./local-place.ts";

// A service with seats elsewhere as a process of its own, which a test kills: `node seat-service.ts DIRECTORY DATABASE_URL
// APP_FOLDER SEAT_FOLDER SEAT_PORT GRACE_MS`. When its app has answered it prints one line: the answer, and the pids of
// its agents.

const [directory = "", databaseUrl = "", app = "", folder = "", seatPort = "", graceMs = ""] =
  process.argv.slice(2);
const place = new LocalPlace({ folder });
const flags = { dataDir: path.join(directory, "data"), apiPort: 0, basePort: 0, databaseUrl, seatPort };
const service = await startService(testSettings(flags), {
  log: createLog("silent"),
  seats: { place, graceMs: Number(graceMs) },
});
const { app: installed } = await service.install(app);
const { projectId, token } = service.owner;
const url = `${service.apiUrl}/v4/${projectId}/${installed.name}/run`;
const answer = await fetch(url, {
  method: "POST",
  headers: { authorization: `Bearer ${token}` },
});
const text = await answer.text();
process.stdout.write(`${JSON.stringify({ text, seats: place.seats.map(({ pid }) => pid) })}\n`);
process.once("SIGTERM", () => void service.stop().then(() => process.exit()));
