import { readFileSync } from "node:fs";
import { test } from "vitest";
import { memoryBytes } from "/work/main/test/support/process-tree.ts";
import { RUNS_MAIN } from "/work/main/test/support/run-apps.ts";
import { serveApps } from "/work/main/test/support/serve-apps.ts";
import { StreamReader } from "/work/main/test/support/stream-reader.ts";
const MIB = 1024*1024, SIZE = 8192, COUNT = 64*MIB/SIZE;
test("mem", async () => {
  const toml = "[scaling]\nmax_replicas = 1\n[limits]\nmax_transcript = '128MiB'\n";
  const served = await serveApps({ app: { main: RUNS_MAIN, toml }, none: {main: RUNS_MAIN, toml: toml+"[deployment]\nrecord_payloads='none'\n"} });
  const open = (path: string, body: object | null = null) => new StreamReader({ url: `${served.url}/${path}`, token: served.token, method: body ? "POST" : "GET", body: body ? JSON.stringify(body) : "" });
  const hwm = () => Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${served.command.pid}/status`,"utf8"))![1])/1024);
  const rss = () => Math.round(memoryBytes(served.command.pid)/MIB);
  console.log("start", rss(), hwm());
  for (const app of ["none","app","none","app"]) for (let i=0;i<4;i++) {
    const t=performance.now();
    await open(app+"/count", {upto: COUNT, size: SIZE}).ended(60000);
    console.log(app, i, "ms", Math.round(performance.now()-t), "rss", rss(), "hwm", hwm());
  }
  for (let i=0;i<3;i++) {
    const t=performance.now();
    const live = open("app/count", {upto: COUNT, size: SIZE});
    await live.hasHead();
    const p = open(`app/runs/${live.runId}/events`); await p.hasHead(); p.socket.pause();
    await live.ended(60000);
    console.log("paused", i, "ms", Math.round(performance.now()-t), "rss", rss(), "hwm", hwm(), p.messages.length);
    p.socket.resume(); await p.ended(60000);
    console.log("read", i, "rss", rss(), "hwm", hwm(), p.messages.length, p.messages.filter(m=>m.event==="truncated").length);
  }
}, 300000);
