import { createWriteStream, existsSync, statSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import path from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { OFFERED_FILE } from "../../shapes/files.ts";
import { explain, explainError } from "../api/explain.ts";
import { send, textOf } from "../api/http.ts";
import { CliFailure, usage } from "../failure.ts";
import { bytes } from "../output/amounts.ts";
import { Progress } from "../output/progress.ts";
import type { RemoteFlags, Task } from "../task.ts";

/** Copies a file of the project's storage to here, whole or not at all. */
export async function download(
  task: Task<RemoteFlags & { readonly force?: boolean }>,
  from: string,
  to?: string,
): Promise<void> {
  const { api, flags, out } = task;
  const target = targetFor(from, to);
  if (target !== null && existsSync(target) && !flags.force) {
    throw usage(`${target} already exists`, "add --force, or name another file");
  }
  const { url } = await api.get(OFFERED_FILE, await api.path("volumes/default/download"), {
    query: { file_path: from },
  });
  const answer = await send(url, { signal: api.signal });
  if (answer.status !== 200) throw explain(answer, await textOf(answer), api.site);
  const totalBytes = Number(answer.headers["content-length"] ?? 0);
  const progress = new Progress(from, out.isJson || target === null);
  let doneBytes = 0;
  const counter = new Transform({
    transform(chunk: Buffer, _, done) {
      progress.bar((doneBytes += chunk.length), totalBytes);
      done(null, chunk);
    },
  });
  try {
    if (target === null) return await pipeline(answer.body, counter, process.stdout, { end: false });
    const aside = `${target}.part`;
    try {
      await pipeline(answer.body, counter, createWriteStream(aside), { signal: api.signal });
      if (!answer.body.complete) throw new CliFailure("the connection was lost");
      await rename(aside, target);
    } finally {
      await rm(aside, { force: true });
    }
  } catch (error) {
    throw explainError(error);
  } finally {
    progress.end();
  }
  out.show({ file: target, size_bytes: doneBytes }, () => `${target}  ${bytes(doneBytes)}\n`);
}

/** The file to write; null for stdout. */
function targetFor(from: string, to: string | undefined): string | null {
  if (to === "-") return null;
  const name = path.basename(from);
  if (to === undefined) return name;
  return to.endsWith("/") || (existsSync(to) && statSync(to).isDirectory()) ? path.join(to, name) : to;
}
