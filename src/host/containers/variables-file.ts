import { writeFile } from "../../kit/files.ts";

/** What the tool is told of a container's variables. */
export type PassedVariables = {
  readonly args: readonly string[];
  /** For the tool's own environment. */
  readonly env: Readonly<Record<string, string>>;
};

/** Names that mean something to the tool itself, or to what loads it and its libraries. */
const ITS_OWN =
  /^(?:LD_|GLIBC_|GCONV_|MALLOC_|LOCPATH|NLSPATH|TZDIR|G_|GIO_|OPENSSL_|GNUPG|GPG|OTEL_|LISTEN_|GO|DOCKER|CONTAINER|PODMAN|BUILDAH|STORAGE|REGISTRY|XDG_|DBUS_|NOTIFY_|SSL_|_)|^(?:PATH|HOME|USER|TMPDIR|LANG|.*_PROXY)$/i;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Writes variables to a file that the tool reads: on a command line every user of the machine could see them. A value of
 * several lines cannot stand in there. It goes by way of the tool's environment, unless its name means something to the
 * tool: then the app goes without it.
 */
export async function writeVariables(
  file: string,
  variables: Readonly<Record<string, string>>,
): Promise<PassedVariables> {
  const lines: string[] = [];
  const args = ["--env-file", file];
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(variables)) {
    if (!NAME.test(name) || value.includes("\0")) continue;
    if (!/[\r\n]/.test(value)) lines.push(`${name}=${value}`);
    else if (!ITS_OWN.test(name)) {
      args.push("--env", name);
      env[name] = value;
    }
  }
  await writeFile(file, `${lines.join("\n")}\n`, { mode: 0o600, flag: "wx" });
  return { args, env };
}
