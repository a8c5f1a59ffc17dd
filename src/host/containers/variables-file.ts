import { writeFile } from "../../kit/files.ts";

/** What the tool is told of a container's variables. */
export type PassedVariables = {
  readonly args: readonly string[];
  /** For the tool's own environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Names of those that the app goes without. */
  readonly withheld: readonly string[];
};

/** Names that mean something to the tool itself, or to what loads it and its libraries. */
const ITS_OWN = new RegExp(
  [
    "^(?:LD|GLIBC|GCONV|MALLOC|G|GIO|OTEL|LISTEN|XDG|DBUS|NOTIFY|)_",
    "^(?:DOCKER|CONTAINER|PODMAN|BUILDAH)",
    "^GO(?:DEBUG|GC|MAXPROCS|MEMLIMIT|TRACEBACK|COVERDIR|RACE|ROOT)$",
    "^(?:STORAGE_(?:DRIVER|OPTS|TMPDIR)|REGISTRY_AUTH_FILE|GNUPGHOME|GPG_(?:TTY|AGENT_INFO))$",
    "^(?:OPENSSL_(?:CONF|MODULES|ENGINES)|SSL_CERT_(?:FILE|DIR)|LOCPATH|NLSPATH|TZDIR)$",
    "^(?:PATH|HOME|USER|TMPDIR|LANG|.*_PROXY)$",
  ].join("|"),
  "i",
);
/** Where the tool stops to read a line of the file, less a little. */
const MAX_LINE_BYTES = 64 * 1000;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Writes variables to a file that the tool reads: on a command line every user of the machine could see them. A value of
 * several lines cannot stand in there, nor a very long one. It goes by way of the tool's environment, unless its name
 * means something to the tool.
 */
export async function writeVariables(
  file: string,
  variables: Readonly<Record<string, string>>,
): Promise<PassedVariables> {
  const lines: string[] = [];
  const args = ["--env-file", file];
  const env: Record<string, string> = {};
  const withheld: string[] = [];
  for (const [name, value] of Object.entries(variables)) {
    if (!NAME.test(name) || value.includes("\0")) continue;
    const line = `${name}=${value}`;
    if (!/[\r\n]/.test(value) && Buffer.byteLength(line) < MAX_LINE_BYTES) lines.push(line);
    else if (!ITS_OWN.test(name)) {
      args.push("--env", name);
      env[name] = value;
    } else withheld.push(name);
  }
  await writeFile(file, `${lines.join("\n")}\n`, { mode: 0o600, flag: "wx" });
  return { args, env, withheld };
}
