import { boolean, duration, integer, line, listOf, mapped, matching, optional, key } from "../readers.ts";
import type { AppKeys, Reader } from "../readers.ts";
import type { CustomRuntimeConfig, DependenciesConfig } from "../../model/app-config.ts";

/**
 * The words of a command line, split as a shell splits them, without expansion. Null if a quote is not closed or nothing
 * follows the last backslash.
 */
export function shellWords(text: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let i = 0; i < text.length; i++) {
    const char = text[i] ?? "";
    if (quote === "'") {
      if (char === "'") quote = "";
      else word += char;
    } else if (char === "\\" && (quote === "" || '"\\$`'.includes(text[i + 1] ?? "x"))) {
      i += 1;
      if (i === text.length) return null;
      word = (word ?? "") + text[i];
    } else if (quote === '"') {
      if (char === '"') quote = "";
      else word += char;
    } else if (char === "'" || char === '"') {
      quote = char;
      word ??= "";
    } else if (/\s/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote !== "") return null;
  if (word !== null) words.push(word);
  return words;
}

const words = listOf("a list of up to 100 words, or one command line", line(4096), 100);

/**
 * Takes the words of a command, or its line, which is split as a shell would. So is a list of one item with blanks
 * in it: clients send a line as such a list, and no program has a name like that.
 */
const entrypoint: Reader<readonly string[]> = {
  ...words,
  read(raw) {
    const [only] = Array.isArray(raw) && raw.length === 1 ? (raw as unknown[]) : [raw];
    if (typeof only !== "string") return words.read(raw);
    if (only.length > 4096) return undefined;
    const split = shellWords(only);
    return split === null ? undefined : words.read(split);
  },
};

/** The kinds of packages, each a table of its own under `[dependencies]`. */
export const DEPENDENCY_KINDS = ["pip", "apt", "conda"] as const;

const bundlePath = matching(
  "a path inside the app's folder",
  (text) => text.length <= 1024 && !/^[/~]|\\/.test(text) && !text.split("/").includes(".."),
);

/** A name that no installer takes for an option, whatever else it may refuse. Only between extras may be blanks. */
export const packageName = matching(
  "a package name of at most 256 characters that does not begin with a hyphen",
  (text) => text.length <= 256 && !/^-|\s/.test(text.replace(/\[[^[\]]*\]$/, "")),
);

/** A version or a range of versions; empty text takes any. */
export const versionSpec = mapped(optional(line(256)), (spec) => spec ?? "");

/** The keys of `[dependencies.paths]`. */
export const DEPENDENCY_PATH_KEYS: AppKeys<DependenciesConfig["paths"]> = {
  pip: key("dependencies.paths.pip", null, optional(bundlePath)).describe(
    "A requirements file to use instead of `[dependencies.pip]`.",
  ),
  apt: key("dependencies.paths.apt", null, optional(bundlePath)).describe(
    "A list of system packages to use instead of `[dependencies.apt]`.",
  ),
  conda: key("dependencies.paths.conda", null, optional(bundlePath)).describe(
    "A list of Conda packages to use instead of `[dependencies.conda]`. Conda is not supported: such a build fails.",
  ),
};

/** A path on the app's own server; some files leave the first slash away. */
const endpoint = mapped(
  matching("a path of at most 1024 characters, without spaces", (text) => /^[\x21-\x7e]{1,1024}$/.test(text)),
  (text) => (text.startsWith("/") ? text : `/${text}`),
);

/** The keys of `[runtime.custom]`. */
export const CUSTOM_RUNTIME_KEYS: AppKeys<CustomRuntimeConfig> = {
  entrypoint: key("runtime.custom.entrypoint", "entrypoint", entrypoint, []).describe(
    "The command that starts the app's own server; a line is split as a shell would.",
  ),
  port: key("runtime.custom.port", "port", integer(1, 65_535), 8000).describe(
    "The server's port, in that command or in its code. Each replica gets a port of its own in its place, and in the variable `PORT`.",
  ),
  healthcheckEndpoint: key(
    "runtime.custom.healthcheck_endpoint",
    "healthcheckEndpoint",
    optional(endpoint),
  ).describe(
    "Path that answers 200 while the server is healthy; three failed checks in a row end the replica. Default: it accepts connections.",
  ),
  readycheckEndpoint: key(
    "runtime.custom.readycheck_endpoint",
    "readycheckEndpoint",
    optional(endpoint),
  ).describe(
    "Path that answers 200 while the server can take calls; it gets none while the check fails. Default: it accepts connections.",
  ),
  passAuthorization: key("runtime.custom.pass_authorization", null, boolean(), false).describe(
    "Whether the server gets the caller's `Authorization` header.",
  ),
  websocketMaxAgeSeconds: key(
    "runtime.custom.websocket_max_age",
    null,
    duration("1m", "30d"),
    "12h",
  ).describe("How long a WebSocket may last; `response_grace_period` does not hold for it."),
  websocketIdleSeconds: key(
    "runtime.custom.websocket_idle_timeout",
    null,
    duration("1m", "30d"),
    "1h",
  ).describe("How long a WebSocket may stay open while neither side sends anything."),
  dockerfilePath: key("runtime.custom.dockerfile_path", "dockerfilePath", optional(bundlePath)).describe(
    "A Dockerfile to build the app's image from: by podman or docker on the host, or in the cluster; see docs/images.md.",
  ),
};
