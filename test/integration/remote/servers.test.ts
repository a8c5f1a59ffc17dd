import { createHash, randomBytes } from "node:crypto";
import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { freePort } from "../../support/free-port.ts";
import { isAlive } from "../../support/process-tree.ts";
import { remoteService, untilCleared } from "../../support/remote/remote-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies("seats.servers", "an app that is a server of its own is reached in a seat elsewhere", async () => {
  const port = await freePort();
  const runtime = `entrypoint = "python main.py --port ${port}"\nport = ${port}\nreadycheck_endpoint = "/readyz"`;
  const { on, place, folder } = await remoteService(databases, { app: serverApp({ runtime }) });
  const first = await on.call("app", { x: 1 }, { functionName: "echo" });
  expect(first.json).toMatchObject({ method: "POST", body: '{"x":1}', port: String(port) });

  const bytes = randomBytes(2_000_000).toString("base64");
  const hashed = await on.call("app", bytes, {
    functionName: "hash",
    headers: { "content-type": "text/plain" },
  });
  expect(hashed.text).toBe(createHash("sha256").update(bytes).digest("hex"));
  const large = await on.call("app", "", { functionName: "bytes", suffix: "?count=3000000", method: "GET" });
  expect(large.text).toHaveLength(3_000_000);
  await until("what it printed is in the log", () => on.logs.some(({ text }) => text === "sent 3000000"));

  const [seat] = place.seats;
  const { pid } = first.json;
  process.kill(pid, "SIGKILL");
  await until("its end is told", () => on.ready("app") === 0 || !isAlive(pid));
  await until("another answers", async () => {
    const answer = await on.call("app", {}, { functionName: "echo" });
    return answer.status === 200 && answer.json.pid !== pid;
  });
  expect((await seat?.exited)?.detail).toBe("exit code 0");
  await on.service.stop();
  await untilCleared(folder);
});
