import { readFile } from "node:fs/promises";
import type { BundleFile } from "../apps/bundles/list-files.ts";
import { packHeader, paddingOf, paxRecords } from "../kit/tar/header.ts";
import { usage } from "./failure.ts";

/** More is refused by the service. */
const MAX_TAR_BYTES = 64 * 1024 * 1024;

/**
 * Calls a function once the file itself has run, with the data's members as its arguments, and prints what it returns
 * or yields. At the file's end, so that its own lines keep their numbers.
 */
const CALL = `

def _millrace_call():
    import asyncio, inspect, json, sys
    name = sys.argv[1]
    data = json.loads(sys.argv[sys.argv.index("--data") + 1]) if "--data" in sys.argv else {}
    function = globals().get(name)
    if not callable(function) or inspect.isclass(function):
        own = [key for key, value in globals().items() if inspect.isfunction(value) and not key.startswith("_")]
        sys.exit("there is no function %s in this file; it has %s" % (name, ", ".join(own) or "none"))

    def show(value):
        if value is not None:
            print(value if isinstance(value, str) else json.dumps(value, default=str), flush=True)

    async def drain(items):
        async for item in items:
            show(item)

    result = function(**data)
    if inspect.isasyncgen(result):
        asyncio.run(drain(result))
    elif inspect.isawaitable(result):
        show(asyncio.run(result))
    elif hasattr(result, "__next__"):
        for item in result:
            show(item)
    else:
        show(result)


_millrace_call()
`;

/** The form of a file run: the files as a tar, of which one ends with a call of the function, and the data. */
export async function fileRunForm(
  files: readonly BundleFile[],
  { fileName, functionName, data }: FileToRun,
): Promise<{ readonly body: Buffer; readonly contentType: string }> {
  const tar = await tarOf(files, fileName, functionName === null ? "" : CALL);
  const form = new FormData();
  if (data !== null) form.set("data", new Blob([data], { type: "application/json" }), "data.json");
  form.set("file", new Blob([tar], { type: "application/x-tar" }), "bundle.tar");
  const encoded = new Response(form);
  return {
    body: Buffer.from(await encoded.arrayBuffer()),
    contentType: encoded.headers.get("content-type") ?? "",
  };
}

/** What is to run. */
export type FileToRun = {
  readonly fileName: string;
  readonly functionName: string | null;
  readonly data: string | null;
};

async function tarOf(
  files: readonly BundleFile[],
  fileName: string,
  appended: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const sizeBytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (sizeBytes > MAX_TAR_BYTES) {
    throw usage(
      `the folder has ${Math.ceil(sizeBytes / 2 ** 20)} MiB, and a file run takes at most 64`,
      "leave files out with exclude of [deployment] in millrace.toml, or put them into the storage: millrace files cp",
    );
  }
  const pieces: Buffer[] = [];
  for (const { name, path } of files) {
    const text = await readFile(path);
    const bytes = name === fileName && appended !== "" ? Buffer.concat([text, Buffer.from(appended)]) : text;
    pieces.push(...entryOf(name, bytes));
  }
  return Uint8Array.from(Buffer.concat([...pieces, Buffer.alloc(1024)]));
}

function entryOf(name: string, bytes: Buffer): Buffer[] {
  const head = {
    name,
    kind: "file",
    mode: 0o644,
    sizeBytes: bytes.length,
    modifiedAt: 0,
    target: "",
  } as const;
  // A name that is too long for the header goes before it.
  const pax = paxRecords(head);
  const before =
    pax.length === 0
      ? []
      : [packHeader({ ...head, name: "pax", kind: "pax", sizeBytes: pax.length }), ...padded(pax)];
  return [...before, packHeader(head), ...padded(bytes)];
}

function padded(bytes: Buffer): Buffer[] {
  return [bytes, Buffer.alloc(paddingOf(bytes.length))];
}
