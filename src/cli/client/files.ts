import { createReadStream, createWriteStream, existsSync, statSync } from "node:fs";
import { readdir, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { BEGUN_UPLOAD, COMPLETED_FILE, FILES, OFFERED_FILE, REMOVED_FILE } from "../../shapes/projects.ts";
import { CliFailure, usage } from "../failure.ts";
import { type Definitions } from "../options.ts";
import { bytes, paint, printableName, relative } from "../output.ts";
import { confirm, withProgress } from "../terminal.ts";
import type { Api } from "./api.ts";
import { explain } from "./explain.ts";
import { ConnectionError, countBytes, send, textOf } from "./http.ts";
import { asking, type RemoteFlags, type Task, type YesFlags } from "./task.ts";

export const COMMANDS: Definitions = {
  files(command) {
    asking(command, "ls", "list a folder of the storage", list, "models").argument(
      "[folder]",
      "the folder (default: the root)",
    );
    asking(command, "cp", "upload a file or folder to the storage", upload, "weights.bin models/")
      .argument("<from>", "a local file or folder")
      .argument(
        "[to]",
        "where it goes; a path that ends with / is a folder (default: the same name, at the root)",
      );
    asking(command, "download", "download a file from the storage", download, "models/weights.bin")
      .argument("<from>", "a file in the storage")
      .argument("[to]", "a local file or folder, or - for stdout (default: the file's own name)")
      .option("--force", "overwrite an existing file");
    asking(command, "rm", "remove a file, or a folder if the path ends with /", remove, "models/old/ --yes")
      .argument("<path>", "the file or folder")
      .option("--yes", "remove a folder without asking");
  },
};

async function list({ api, out }: Task, folder = "/"): Promise<void> {
  const found = await api.get(FILES, await api.path("volumes/default/ls"), { query: { dir: folder } });
  out.list(found, {
    NAME: ({ name, is_folder }) =>
      is_folder ? paint("cyan", `${printableName(name)}/`) : printableName(name),
    SIZE: ({ is_folder, size_bytes }) => (is_folder ? "–" : bytes(size_bytes)),
    MODIFIED: ({ last_modified }) => relative(last_modified),
  });
  if (found.length === 0) out.note(`${folder} is empty`);
}

async function remove({ api, flags, out, signal }: Task<YesFlags>, target: string): Promise<void> {
  if (target.endsWith("/")) await confirm(`Remove ${target} and everything in it?`, flags, signal);
  const query = { file_path: target };
  const answer = await api.ask(REMOVED_FILE, "DELETE", await api.path("volumes/default/rm"), { query });
  out.show(answer, () => `${target} is removed.\n`);
}

type Source = { readonly file: string; readonly target: string; readonly sizeBytes: number };

/** A part that is lost is sent again whole: small enough to repeat, and larger only where there would be too many. */
const PART_BYTES = 16 * 1024 * 1024;
const MAX_PARTS = 2_000;
const TRIES = 4;

async function upload({ api, out }: Task, from: string, to?: string): Promise<void> {
  const sources = await listSources(from, to);
  const totalBytes = sources.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  let doneBytes = 0;
  await withProgress("", out.isJson, async (progress) => {
    for (const source of sources)
      await uploadFile(api, source, (count) => progress.bar((doneBytes += count), totalBytes));
  });
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

/** Sends a part, and retries if the connection is lost. */
async function putPart(api: Api, part: Part, onBytes: (count: number) => void): Promise<string> {
  for (let left = TRIES; ; left -= 1) {
    let sentBytes = 0;
    const counter = countBytes((count) => {
      sentBytes += count;
      onBytes(count);
    });
    try {
      const { file, url, start, end } = part;
      const bytes = createReadStream(file, { start, end: end - 1 }).pipe(counter);
      return String((await api.put(url, bytes, end - start)).etag);
    } catch (error) {
      const isRefused = error instanceof CliFailure && !(error instanceof ConnectionError);
      if (left === 1 || api.signal.aborted || isRefused) throw error;
      onBytes(-sentBytes);
    }
  }
}

/** The files to send and where each goes; a folder's keep their places below it. */
async function listSources(from: string, to: string | undefined): Promise<Source[]> {
  const found = await stat(from).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") throw usage(`there is no file or folder ${from}`);
    throw usage(`${from} cannot be read: ${error.code}`);
  });
  const name = path.basename(path.resolve(from));
  const target = to === undefined ? name : to.endsWith("/") ? `${to}${name}` : to;
  if (found.isFile()) return [{ file: from, target, sizeBytes: found.size }];
  if (!found.isDirectory()) throw usage(`${from} is neither a file nor a folder`);
  const entries = await readdir(from, { recursive: true, withFileTypes: true });
  const files = entries.flatMap((each) => (each.isFile() ? path.join(each.parentPath, each.name) : []));
  if (files.length === 0) throw usage(`${from} contains no files`);
  return await Promise.all(
    files.toSorted().map(async (file) => ({
      file,
      target: `${target}/${path.relative(from, file).split(path.sep).join("/")}`,
      sizeBytes: (await stat(file)).size,
    })),
  );
}

async function download(
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
  if (answer.status !== 200) throw explain(answer.status, await textOf(answer), api.site);
  const totalBytes = Number(answer.headers["content-length"] ?? 0);
  let doneBytes = 0;
  await withProgress(from, out.isJson || target === null, async (progress) => {
    const counter = countBytes((count) => progress.bar((doneBytes += count), totalBytes));
    if (target === null) return await pipeline(answer.body, counter, process.stdout, { end: false });
    const aside = `${target}.part`;
    try {
      await pipeline(answer.body, counter, createWriteStream(aside), { signal: api.signal });
      if (!answer.body.complete) throw new CliFailure("the connection was lost");
      await rename(aside, target);
    } finally {
      await rm(aside, { force: true });
    }
  });
  if (target === null) return;
  out.show({ file: target, size_bytes: doneBytes }, () => `${target}  ${bytes(doneBytes)}\n`);
}

function targetFor(from: string, to: string | undefined): string | null {
  if (to === "-") return null;
  const name = path.basename(from);
  if (to === undefined) return name;
  return to.endsWith("/") || (existsSync(to) && statSync(to).isDirectory()) ? path.join(to, name) : to;
}
