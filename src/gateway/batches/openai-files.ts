import { pipeline } from "node:stream/promises";
import { Readable } from "node:stream";
import { Busboy, type BusboyFileStream, type BusboyInstance } from "@fastify/busboy";
import type { App } from "../../model/app.ts";
import { AppError } from "../../model/errors.ts";
import type { LineBatch } from "../../model/line-batch.ts";
import { batchResults, type ResultParts } from "../../runs/batches/results.ts";
import { openAiForm } from "../../runs/batches/openai-lines.ts";
import type { BatchFile } from "../../store/batches/openai-batches.ts";
import type { Store } from "../../store/store.ts";
import { SilenceWatch, type UploadRouteParts } from "./upload-route.ts";
import type { FileName } from "./openai-objects.ts";
import type { LiveApp } from "../../apps/catalog.ts";
import type { RememberedToken } from "../../identity/tokens.ts";
import type { AppRequest } from "../app-request.ts";
import type { CallRoute } from "../route.ts";

/** A request of a caller who may call the function, or the server. */
export type OpenAiCall = AppRequest<CallRoute> & {
  readonly live: LiveApp;
  readonly token: RememberedToken;
  readonly use: "function" | "server";
};

export type FileParts = UploadRouteParts & Omit<ResultParts, "store"> & { readonly store: Store };

/** As of OpenAI. */
const MAX_FILE_BYTES = 200 * 1000 * 1000;
/** Of all files that an account has uploaded to an app. */
const MAX_ACCOUNT_BYTES = 2_000_000_000;
const PART_BYTES = 512 * 1024;
/** Two parts, and what the form holds. */
const ROOM_BYTES = 2 * 1024 * 1024;
const FORM_LIMITS = { parts: 20, files: 1, fieldSize: 1024, headerPairs: 50, fileSize: MAX_FILE_BYTES + 1 };
const KEPT_MS = 30 * 24 * 3600 * 1000;
/** An upload that the service did not survive is removed after this. */
const UNFINISHED_MS = 3600 * 1000;
const TOO_LARGE = { message: `A file has up to ${MAX_FILE_BYTES / 1e6} MB.` };
const NO_QUOTA = {
  message: `This account's files have ${MAX_ACCOUNT_BYTES / 1e9} GB in this app: delete some, or wait until they expire.`,
};
const BROKEN_OFF = new Error("the form broke off");
const NO_FORM = { message: "Send multipart/form-data with file and purpose." };

/** `POST …/files`: stores the form's file as it arrives. */
export async function uploadFile(parts: FileParts, call: OpenAiCall): Promise<BatchFile> {
  const { store, steadyClock, reserve, bodyRoom, authenticator } = parts;
  const { exchange, route, live, token, use } = call;
  if (reserve.refusal !== null) throw new AppError("storage_full", { message: reserve.refusal });
  if (!bodyRoom.open(route.projectId, exchange)(ROOM_BYTES)) throw new AppError("overloaded");
  const createdAt = steadyClock.now();
  const { number: appNumber } = live.app;
  const owner = { id: exchange.id, appNumber, ...token.principal.caller };
  const purpose = "batch";
  const draft = { ...owner, name: "", purpose, createdAt, expiresAt: createdAt + UNFINISHED_MS };
  const watch = new SilenceWatch(parts);
  authenticator.hold(call, use, token, (error) => watch.fail(error));
  // The watch limits how long the form may be silent, not how long it may take.
  exchange.isPaced = true;
  if (call.head.isHeldBack) exchange.response.writeContinue();
  try {
    const form = await readForm(
      watch.pieces(exchange.request),
      exchange.request.headers,
      async (file, name) => {
        const number = await store.batchFiles.insert({ ...draft, name });
        await storeParts(parts, file, { number, appNumber, accountId: owner.accountId });
        return number;
      },
    );
    await authenticator.confirm(call, use, token);
    const keptMs = readKept(form.fields.get("expires_after[seconds]"));
    const last = {
      number: form.taken,
      purpose: form.fields.get("purpose") ?? "",
      expiresAt: createdAt + keptMs,
    };
    if (last.purpose !== purpose)
      throw new AppError("bad_request", { message: 'purpose must be "batch": files are for batches only.' });
    await store.batchFiles.finish(last);
    const stored = await store.batchFiles.find(owner);
    if (!stored) throw new AppError("not_found");
    return stored;
  } catch (error) {
    await store.batchFiles.remove(owner).catch(() => undefined);
    throw error;
  } finally {
    watch.stop();
  }
}

async function storeParts(
  { store, reserve }: FileParts,
  file: BusboyFileStream,
  owner: { readonly number: number; readonly appNumber: number; readonly accountId: string },
): Promise<void> {
  let pieces: Buffer[] = [];
  let [size, part] = [0, 0];
  const keep = async (): Promise<void> => {
    if (reserve.refusal !== null) throw new AppError("storage_full", { message: reserve.refusal });
    const bytes = Buffer.concat(pieces);
    const stored = { ...owner, part, bytes, maxBytes: MAX_ACCOUNT_BYTES };
    if (bytes.length > 0 && !(await store.batchFiles.append(stored)))
      throw new AppError("storage_full", NO_QUOTA);
    [pieces, size, part] = [[], 0, part + 1];
  };
  for await (const piece of file.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    pieces.push(piece);
    size += piece.length;
    if (size >= PART_BYTES) await keep();
  }
  if (file.truncated) throw new AppError("body_too_large", TOO_LARGE);
  await keep();
}

type Form<Taken> = { readonly fields: ReadonlyMap<string, string>; readonly taken: Taken };

/** Reads a form whose one file is taken as it arrives. */
async function readForm<Taken>(
  pieces: AsyncIterable<Buffer>,
  headers: NodeJS.Dict<string | string[]>,
  take: (file: BusboyFileStream, name: string) => Promise<Taken>,
): Promise<Form<Taken>> {
  const form = formOf(headers);
  const fields = new Map<string, string>();
  const takings: Promise<Taken>[] = [];
  let file: BusboyFileStream | null = null;
  let broken: Error | null = null;
  form.on("field", (name, value) => fields.set(name, value));
  form.on("file", (_, stream, name: string | undefined) => {
    file = stream;
    // It may fail before it is read, or after: nothing else would listen.
    stream.on("error", (error: Error) => (broken = error));
    const taking = take(stream, (name ?? "").slice(0, 255));
    taking.catch((error: Error) => form.destroy(error));
    takings.push(taking);
  });
  try {
    await pipeline(Readable.from(pieces, { objectMode: false }), form);
  } catch (error) {
    (file as BusboyFileStream | null)?.destroy(BROKEN_OFF);
    const [taken] = await Promise.allSettled(takings);
    if (taken?.status === "rejected" && taken.reason !== broken) throw taken.reason;
    if (error instanceof AppError) throw error;
    throw new AppError("bad_request", { message: "The form is malformed or incomplete." }, error);
  }
  const [taking] = takings;
  if (!taking) throw new AppError("bad_request", NO_FORM);
  return { fields, taken: await taking };
}

function formOf(headers: NodeJS.Dict<string | string[]>): BusboyInstance {
  const type = String(headers["content-type"] ?? "");
  try {
    if (!/^multipart\/form-data\b/i.test(type)) throw new Error("no form");
    return new Busboy({
      headers: { ...headers, "content-type": type },
      limits: FORM_LIMITS,
      isPartAFile: (name) => name === "file",
    });
  } catch (error) {
    throw new AppError("unsupported_media_type", NO_FORM, error);
  }
}

function readKept(text: string | undefined): number {
  if (text === undefined) return KEPT_MS;
  const seconds = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  if (seconds >= 3600 && seconds * 1000 <= KEPT_MS) return seconds * 1000;
  throw new AppError("bad_request", { message: "expires_after[seconds] must be from 3600 to 2592000." });
}

/** The bytes of a file that was uploaded; throws if it is deleted on the way. */
export async function* fileBytes(
  { store }: Pick<FileParts, "store">,
  { number, bytes: size }: Pick<BatchFile, "number" | "bytes">,
): AsyncGenerator<Buffer> {
  let left = size;
  for (let part = 0; left > 0; part++) {
    const bytes = await store.batchFiles.part({ number, part });
    if (!bytes) throw new AppError("not_found", { message: "The file has been deleted meanwhile." });
    yield Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    left -= bytes.length;
  }
}

/** The file of results, or that of errors, of a batch that has ended. */
export async function* resultBytes(
  parts: FileParts & { readonly feeder: ResultParts["feeder"] },
  { kind }: FileName,
  { app, batch }: { readonly app: App; readonly batch: LineBatch },
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const query = { order: "input", after: -1, isFollowing: false } as const;
  const found = { appNumber: app.number, id: batch.id, number: batch.number };
  yield* batchResults(parts, found, query, openAiForm(kind === "errors"), signal);
}
