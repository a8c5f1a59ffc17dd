import type { IncomingMessage } from "node:http";
import { pipeline } from "node:stream/promises";
import { Busboy } from "@fastify/busboy";
import type { BusboyFileStream, BusboyInstance } from "@fastify/busboy";
import { AppError } from "../model/errors.ts";

/** What comes with the archive, as text. */
export type RunForm = { readonly projectId: string | null; readonly data: string | null };

type TakeFile = (file: AsyncIterable<Buffer>) => Promise<void>;

const FILE = "file";
const MAX_FIELD_BYTES = 256 * 1024;
const LIMITS = { parts: 20, files: 1, fieldSize: MAX_FIELD_BYTES, headerPairs: 50 } as const;

/**
 * Reads `multipart/form-data`: `projectId`, `data`, and the part `file`, which `takeFile` reads as it arrives.
 * Throws what `takeFile` throws, and `bad_request` for a form that lacks the file or breaks off.
 */
export async function readRunForm(raw: IncomingMessage, takeFile: TakeFile): Promise<RunForm> {
  const form = formOf(raw);
  const fields = new Map<string, string>();
  const cut = new Set<string>();
  let file: BusboyFileStream | null = null;
  let taking: Promise<unknown> = Promise.resolve(null);
  form.on("field", (name, value, _, isCut) => {
    fields.set(name, value);
    if (isCut) cut.add(name);
  });
  form.on("file", (_, stream) => {
    file = stream;
    taking = take(stream, takeFile);
  });
  try {
    await pipeline(raw, form);
  } catch (error) {
    (file as BusboyFileStream | null)?.destroy(new Error("the form broke off"));
    await taking;
    throw new AppError("bad_request", { message: "The form is malformed or incomplete." }, error);
  }
  const problem = await taking;
  if (problem) throw problem;
  if (!file) throw new AppError("bad_request", { message: `The form has no part "${FILE}".` });
  const [tooLong] = cut;
  if (tooLong !== undefined) throw new AppError("body_too_large", { message: "A field is too large." });
  return { projectId: fields.get("projectId") ?? null, data: fields.get("data") ?? null };
}

function formOf({ headers }: IncomingMessage): BusboyInstance {
  const type = headers["content-type"] ?? "";
  try {
    if (!/^multipart\/form-data\b/i.test(type)) throw new Error("no form");
    return new Busboy({
      headers: { ...headers, "content-type": type },
      limits: LIMITS,
      // Clients send the data as a file too.
      isPartAFile: (name) => name === FILE,
    });
  } catch (error) {
    throw new AppError("unsupported_media_type", { message: "Send multipart/form-data." }, error);
  }
}

/** Resolves with what went wrong, or null; the rest of the file is dropped, so that the form comes to its end. */
async function take(file: BusboyFileStream, takeFile: TakeFile): Promise<unknown> {
  const pieces = file.iterator({ destroyOnReturn: false }) as AsyncIterableIterator<Buffer>;
  try {
    await takeFile(pieces);
    return null;
  } catch (error) {
    return error;
  } finally {
    // Not by `resume`: while there is an iterator, nothing flows by itself.
    await drop(pieces);
  }
}

async function drop(pieces: AsyncIterableIterator<Buffer>): Promise<void> {
  try {
    for await (const _ of pieces);
  } catch {
    // It broke off, which is told elsewhere.
  }
}
