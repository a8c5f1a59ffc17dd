import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import path from "node:path";
import { Transform } from "node:stream";
import { BEGUN_UPLOAD, COMPLETED_FILE } from "../../shapes/files.ts";
import type { Api } from "../api/api.ts";
import { explain, explainError } from "../api/explain.ts";
import { send, textOf } from "../api/http.ts";
import { CliFailure, usage } from "../failure.ts";
import { bytes } from "../output/amounts.ts";
import { Progress } from "../output/progress.ts";
import type { Task } from "../task.ts";

type Source = { readonly file: string; readonly target: string; readonly sizeBytes: number };

/** A part that is lost is sent again whole: small enough to repeat, and larger only where there would be too many. */
const PART_BYTES = 16 * 1024 * 1024;
const MAX_PARTS = 2_000;
const TRIES = 4;

/** Copies a file, or all files of a folder, into the project's storage. */
export async function upload({ api, out }: Task, from: string, to?: string): Promise<void> {
  const sources = await listSources(from, to);
  const totalBytes = sources.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const progress = new Progress("", out.isJson);
  let doneBytes = 0;
  try {
    for (const source of sources) {
      await uploadFile(api, source, (count) => progress.bar((doneBytes += count), totalBytes));
    }
  } finally {
    progress.end();
  }
  const files = sources.map(({ target, sizeBytes }) => ({ file_path: target, size_bytes: sizeBytes }));
  out.show(files, () => files.map((file) => `${file.file_path}  ${bytes(file.size_bytes)}\n`).join(""));
}

async function uploadFile(api: Api, source: Source, onBytes: (count: number) => void): Promise<void> {
  const { file, target, sizeBytes } = source;
  const partBytes = Math.max(PART_BYTES, Math.ceil(sizeBytes / MAX_PARTS));
  const count = Math.ceil(sizeBytes / partBytes);
  const begun = await api.ask(BEGUN_UPLOAD, "POST", await api.path("volumes/default/cp/initialize"), {
    body: { file_path: target, part_count: count },
  });
  if (count === 0) return;
  const parts: { part_number: number; etag: string }[] = [];
  for (const { part_number: number, url } of begun.parts) {
    const start = (number - 1) * partBytes;
    const end = Math.min(start + partBytes, sizeBytes);
    const etag = await putPart(api, { file, url, start, end }, onBytes);
    parts.push({ part_number: number, etag });
  }
  await api.ask(COMPLETED_FILE, "POST", await api.path("volumes/default/cp/complete"), {
    body: { upload_id: begun.upload_id, file_path: target, parts },
  });
}

type Part = { readonly file: string; readonly url: string; readonly start: number; readonly end: number };

/** Sends a part, again where the connection was lost; its URL carries its own right. */
async function putPart(api: Api, part: Part, onBytes: (count: number) => void): Promise<string> {
  for (let left = TRIES; ; left -= 1) {
    let sentBytes = 0;
    const counter = new Transform({
      transform(chunk: Buffer, _, done) {
        sentBytes += chunk.length;
        onBytes(chunk.length);
        done(null, chunk);
      },
    });
    try {
      const { file, url, start, end } = part;
      const answer = await send(url, {
        method: "PUT",
        headers: { "content-length": String(end - start) },
        body: createReadStream(file, { start, end: end - 1 }).pipe(counter),
        signal: api.signal,
      });
      const text = await textOf(answer);
      if (answer.status !== 200) throw explain(answer, text, api.site);
      return String(answer.headers.etag);
    } catch (error) {
      if (left === 1 || api.signal.aborted || error instanceof CliFailure) throw explainError(error);
      onBytes(-sentBytes);
    }
  }
}

/** The files to send and where each goes; a folder's keep their places below it. */
async function listSources(from: string, to: string | undefined): Promise<Source[]> {
  const found = await stat(from).catch((error: NodeJS.ErrnoException) => {
    throw usage(
      error.code === "ENOENT"
        ? `there is no file or folder ${from}`
        : `${from} cannot be read: ${error.code}`,
    );
  });
  const name = path.basename(path.resolve(from));
  const target = to === undefined ? name : to.endsWith("/") ? `${to}${name}` : to;
  if (found.isFile()) return [{ file: from, target, sizeBytes: found.size }];
  if (!found.isDirectory()) throw usage(`${from} is neither a file nor a folder`);
  const entries = await readdir(from, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  if (files.length === 0) throw usage(`${from} contains no files`);
  return await Promise.all(
    files.toSorted().map(async (file) => ({
      file,
      target: `${target}/${path.relative(from, file).split(path.sep).join("/")}`,
      sizeBytes: (await stat(file)).size,
    })),
  );
}
