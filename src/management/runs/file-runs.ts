import type { IncomingMessage } from "node:http";
import { pipeline } from "node:stream/promises";
import { Busboy, type BusboyFileStream, type BusboyInstance } from "@fastify/busboy";
import { z } from "zod";
import { judgeEntryName } from "../../apps/bundles/entry-names.ts";
import { APP_KEYS } from "../../config/app-shape.ts";
import { AppError } from "../../model/errors.ts";
import { APP_NAME } from "../../model/names.ts";
import { ID } from "../../shapes/common.ts";
import { BASE_IMAGE, FILE_RUN } from "../../shapes/runs.ts";
import { isPlainText, takeBytes } from "../api/bodies.ts";
import { findApp, nameIn } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const operation = tagged("File runs");
const PATH = "/v3/projects/{project_id}/apps/{app_id}";

/** Existing clients send these with every run; here they come from the app's configuration. */
const OF_CLIENTS: ReadonlySet<string> = new Set([
  "appName",
  "hardware",
  ...APP_KEYS.flatMap(({ payload }) => payload ?? []),
]);
const MAX_WARNINGS = 10;

const PACKAGES = z.record(z.string().max(300), z.string().max(1_000)).nullish();
const COMMANDS = z.array(z.string().max(100_000)).max(1_000).nullish();

const WANTED_IMAGE = z.object({
  dependencies: z.object({ pip: PACKAGES, conda: PACKAGES, apt: PACKAGES }).nullish(),
  preBuildCommands: COMMANDS,
  shellCommands: COMMANDS,
  baseImageURI: z.string().max(1_000).nullish(),
});

const RUN_QUERY = z.object({
  filename: z
    .string()
    .regex(/\.py$/, "must name a Python file")
    .transform((name) => name.replace(/^(?:\.\/+)+/, ""))
    .refine(
      (name) => judgeEntryName(Buffer.from(name)).kind === "fine",
      "must be a file name inside the folder",
    ),
  functionName: z
    .string()
    .regex(/^(?:[A-Za-z_][A-Za-z0-9_]{0,127})?$/, "must be a function's name")
    .optional(),
  imageDigest: z.string().max(200).optional(),
});

/** File runs: a file is sent with its folder, runs once in its app's environment, and is removed. */
export function runOnceOperations(parts: ManagementParts): Operation[] {
  const { store, fileRuns, baseImages, clock } = parts;
  return [
    operation("POST", `${PATH}/create-run-app`, {
      id: "createRunApp",
      summary: "Get the app for file runs, creating it if needed",
      access: "deploy",
      response: ID,
      handle: async (call) => {
        const { projectId } = call;
        const { app_id: id } = call.params;
        const name = nameIn(projectId, id) ?? "";
        if (!APP_NAME.test(name)) {
          const message =
            "The app's id must be the project's id, a hyphen, and a name of lower-case letters, digits and hyphens.";
          throw new AppError("bad_request", { message });
        }
        if (await store.apps.find({ projectId, name })) return { id };
        await store.apps.insertOrFind({ projectId, name, createdAt: clock.now() });
        await call.record("app.create", id, { after: { name } });
        return { id };
      },
    }),
    operation("POST", `${PATH}/base-image`, {
      id: "makeBaseImage",
      summary: "Install packages for file runs; repeat until it is ready",
      access: "deploy",
      body: WANTED_IMAGE,
      maxBodyBytes: 256 * 1024,
      maxValues: 5_000,
      response: BASE_IMAGE,
      errors: ["app_not_found", "deploy_invalid", "queue_full"],
      handle: async ({ params, body }) => {
        const app = await findApp(store, params);
        return await baseImages.make(app, {
          pip: body.dependencies?.pip ?? {},
          conda: body.dependencies?.conda ?? {},
          apt: body.dependencies?.apt ?? {},
          preBuildCommands: (body.preBuildCommands ?? []).map(fromBase64),
          shellCommands: (body.shellCommands ?? []).map(fromBase64),
          baseImage: body.baseImageURI ?? null,
        });
      },
    }),
    operation("POST", `${PATH}/run`, {
      id: "runFile",
      summary: "Run `python FILE FUNCTION --data JSON` once, in the folder you send as a tar",
      access: "deploy",
      query: RUN_QUERY,
      takesBytes: true,
      response: FILE_RUN,
      errors: [
        "app_not_found",
        "upload_invalid",
        "body_too_large",
        "unsupported_media_type",
        "queue_full",
        "draining",
        "storage_unavailable",
        "in_doubt",
      ],
      handle: async (call) => {
        const app = await findApp(store, call.params);
        const { filename: fileName, imageDigest } = call.query;
        const functionName = call.query.functionName || null;
        const environment = imageDigest === undefined ? null : await baseImages.find(app, imageDigest);
        const runId = await fileRuns.run(app, {
          fileName,
          functionName,
          environment,
          ip: call.ip,
          caller: call.principal.caller,
          warnings: unknownMembers(call.reply.request.query),
          receive: async (unpack) => {
            const form = await takeBytes(call.reply, (raw) => readRunForm(raw, unpack));
            return dataOf(form, call.projectId);
          },
        });
        await call.record("file.run", call.params.app_id, { after: { fileName, functionName, runId } });
        return { runId };
      },
    }),
  ];
}

/** Warnings about unknown query members, for the run's log: a misspelt one would have no effect. */
function unknownMembers(query: unknown): string[] {
  const known = Object.keys(RUN_QUERY.shape);
  return Object.keys(query as object)
    .filter((name) => !known.includes(name) && !OF_CLIENTS.has(name))
    .slice(0, MAX_WARNINGS)
    .map(
      (name) =>
        `the query has ${JSON.stringify(name.slice(0, 100))}, which means nothing here; known are ${known.join(", ")}`,
    );
}

/** The JSON for the function, unchanged; null if there is none. */
function dataOf({ projectId, data }: RunForm, expected: string): string | null {
  if (projectId !== null && projectId !== expected) {
    const message = "The form's projectId differs from the project in the path.";
    throw new AppError("bad_request", { message });
  }
  if (data === null || data.trim() === "") return null;
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (error) {
    throw new AppError("invalid_json", { message: "The part data is not valid JSON." }, error);
  }
  if (!isPlainText(data)) throw new AppError("invalid_json");
  return value === null ? null : data;
}

/** Clients encode commands in base64; other text is taken as it is. */
function fromBase64(text: string): string {
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? bytes.toString() : text;
}

type RunForm = { readonly projectId: string | null; readonly data: string | null };
type TakeFile = (file: AsyncIterable<Buffer>) => Promise<void>;

const FILE = "file";
const MAX_FIELD_BYTES = 256 * 1024;
const LIMITS = { parts: 20, files: 1, fieldSize: MAX_FIELD_BYTES, headerPairs: 50 } as const;

/**
 * Reads `multipart/form-data`: `projectId`, `data`, and the part `file`, which `takeFile` reads as it arrives.
 * Throws what `takeFile` throws, and `bad_request` for a form that lacks the file or breaks off.
 */
async function readRunForm(raw: IncomingMessage, takeFile: TakeFile): Promise<RunForm> {
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

/** Resolves with the error or null; reads and drops the rest of the file, so that the form can end. */
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
    // The pipeline reports the broken connection.
  }
}
