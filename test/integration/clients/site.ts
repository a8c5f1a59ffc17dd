import path from "node:path";
import { Millrace, type TransportOptions } from "../../../src/client/client.ts";
import { run } from "../../support/command-line.ts";
import { RUNS_MAIN } from "../../support/run-apps.ts";
import type { TestService } from "../../support/service.ts";
import { REPOSITORY } from "../../support/source-files.ts";

/** An app with functions of every kind. `mixed` yields in every form that a message can take. */
export const CLIENTS_MAIN = `${RUNS_MAIN}
import base64, hashlib

def run(name="World"):
    return {"message": "Hello, %s!" % name}

def ticking(pause=0.01):
    i = 0
    while True:
        i += 1
        yield "m%d" % i
        time.sleep(pause)

def mixed(upto, pause=0):
    for i in range(1, upto + 1):
        noise = base64.b64encode(hashlib.shake_128(str(i).encode()).digest(128)).decode()
        form = i % 8
        if form == 0:
            yield {"i": i, "wörter": ["ž" * (i % 5), "😀", noise]}
        elif form == 1:
            yield "%d\\nzwei Zeilen: äöü\\r\\n%s" % (i, noise)
        elif form == 2:
            yield "event: named\\nid: own-%d\\ndata: %d %s\\n\\n" % (i, i, noise)
        elif form == 3:
            yield "data: %d a €%s\\n\\nevent: b\\ndata: %d b\\n\\nid: x\\ndata: %d c\\n\\n" % (i, noise, i, i)
        elif form == 4:
            yield ""
        elif form == 5:
            yield 'event: error\\ndata: {"mine": %d}\\n\\n' % i
        elif form == 6:
            yield "event: end\\ndata: %d\\n\\n: a comment\\ndata: after the end\\n\\n" % i
        else:
            yield "%d 漢字 😀😀 %s" % (i, noise)
        if pause:
            time.sleep(pause)
`;

/** The same, and functions of numbers, of which one fails. */
export const MAP_MAIN = `${CLIENTS_MAIN}
def double(n):
    if n < 0:
        raise ValueError("%d is negative" % n)
    return n * 2

def minus(a, b=0):
    return a - b
`;

let gates = 0;

/** The name of a gate that nobody has opened, at a second try of a test either. */
export function newGate(): string {
  gates += 1;
  return `gate-${gates}`;
}

/** The TypeScript client on a test's service, or on a proxy before it. */
export function clientOf(
  { service }: TestService,
  url = service.apiUrl,
  options: Partial<TransportOptions> = {},
): Millrace {
  const { projectId, token } = service.owner;
  return new Millrace({ url, project: projectId, token, backoffMs: 20, ...options });
}

/** A new webhook secret of the project, made as its owner makes one. */
export async function newSecret({ service }: TestService): Promise<string> {
  const { baseUrl, owner } = service;
  const response = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/webhook-secrets`, {
    method: "POST",
    headers: { authorization: `Bearer ${owner.token}` },
  });
  return ((await response.json()) as { secret: string }).secret;
}

/** Runs a Python program in which `millrace` is the client on that service; gives what it printed as JSON. */
export async function inPython(
  { service }: TestService,
  program: string,
  url = service.apiUrl,
  python = "python3",
): Promise<unknown> {
  const { projectId, token } = service.owner;
  const head = [
    "import json, os, sys",
    "from millrace_client import *",
    "url, project, token = os.environ['URL'], os.environ['PROJECT'], os.environ['TOKEN']",
    "millrace = Millrace(url, project, token, backoff_seconds=0.02)",
    "def show(value): print(json.dumps(value), flush=True)",
  ];
  const { code, stdout, stderr } = await run(
    python,
    ["-W", "error", "-c", [...head, program.trim()].join("\n")],
    {
      env: {
        PYTHONPATH: path.join(REPOSITORY, "python"),
        PYTHONDONTWRITEBYTECODE: "1",
        URL: url,
        PROJECT: projectId,
        TOKEN: token,
      },
    },
  );
  if (code !== 0 || stderr !== "") throw new Error(`the program ended with ${code}:\n${stderr}`);
  return JSON.parse(stdout);
}
