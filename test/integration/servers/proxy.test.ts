import { expect, test } from "vitest";
import { testService } from "../../support/service.ts";
import { serverApp } from "../../support/servers/server-app.ts";

test("smoke", async () => {
  const site = await testService({ web: serverApp() });
  const answer = await site.call("web", { a: 1 }, { functionName: "some/path", suffix: "?x=1&y=%20" });
  console.log(answer.status, answer.text, Object.fromEntries(answer.headers));
  expect(answer.status).toBe(200);
  const get = await site.call("web", "", { functionName: "", method: "GET" });
  console.log(get.status, get.text);
  const all = await Promise.all(Array.from({ length: 20 }, (_, n) => site.call("web", { n })));
  console.log(all.map(({ status }) => status).join());
  const stream = await site.call("web", "", { functionName: "stream", method: "GET" });
  console.log(stream.status, JSON.stringify(stream.text));
  const record = await site.ofRun("web", answer.headers.get("x-request-id") ?? "");
  console.log(record.status, record.text);
});
