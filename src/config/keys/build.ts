import { boolean, duration, integer, line, listOf, mapped, matching, optional } from "../readers.ts";
import type { AppKeys, Reader } from "../readers.ts";
import type { CustomRuntimeConfig, DependenciesConfig } from "../../model/app-config.ts";

/**
 * The words of a command line, split as a shell splits them: blanks separate, quotes hold together, a backslash
 * takes the next character as it is. Nothing is expanded. Null where a quote is not closed or the last backslash
 * has nothing behind it.
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
  pip: {
    path: "dependencies.paths.pip",
    reader: optional(bundlePath),
    meaning: "A requirements file to use instead of `[dependencies.pip]`.",
  },
  apt: {
    path: "dependencies.paths.apt",
    reader: optional(bundlePath),
    meaning: "A list of system packages to use instead of `[dependencies.apt]`.",
  },
  conda: {
    path: "dependencies.paths.conda",
    reader: optional(bundlePath),
    meaning:
      "A list of Conda packages to use instead of `[dependencies.conda]`. Conda is not supported: such a build fails.",
  },
};

/** A path on the app's own server; some files leave the first slash away. */
const endpoint = mapped(
  matching("a path of at most 1024 characters, without spaces", (text) => /^[\x21-\x7e]{1,1024}$/.test(text)),
  (text) => (text.startsWith("/") ? text : `/${text}`),
);

/** The keys of `[runtime.custom]`. */
export const CUSTOM_RUNTIME_KEYS: AppKeys<CustomRuntimeConfig> = {
  entrypoint: {
    path: "runtime.custom.entrypoint",
    payload: "entrypoint",
    reader: entrypoint,
    default: [],
    meaning: "The command that starts the app's own server; a line is split as a shell would.",
  },
  port: {
    path: "runtime.custom.port",
    payload: "port",
    reader: integer(1, 65_535),
    default: 8000,
    meaning:
      "The server's port, in that command or in its code. Each replica gets a port of its own in its place, and in the variable `PORT`.",
  },
  healthcheckEndpoint: {
    path: "runtime.custom.healthcheck_endpoint",
    payload: "healthcheckEndpoint",
    reader: optional(endpoint),
    meaning:
      "Path that answers 200 while the server is healthy; three failed checks in a row end the replica. Default: it accepts connections.",
  },
  readycheckEndpoint: {
    path: "runtime.custom.readycheck_endpoint",
    payload: "readycheckEndpoint",
    reader: optional(endpoint),
    meaning:
      "Path that answers 200 while the server can take calls; it gets none while the check fails. Default: it accepts connections.",
  },
  passAuthorization: {
    path: "runtime.custom.pass_authorization",
    reader: boolean(),
    default: false,
    meaning: "Whether the server gets the caller's `Authorization` header.",
  },
  websocketMaxAgeSeconds: {
    path: "runtime.custom.websocket_max_age",
    reader: duration("1m", "30d"),
    default: "12h",
    meaning: "How long a WebSocket may last; `response_grace_period` does not hold for it.",
  },
  websocketIdleSeconds: {
    path: "runtime.custom.websocket_idle_timeout",
    reader: duration("1m", "30d"),
    default: "1h",
    meaning: "How long a WebSocket may stay open while neither side sends anything.",
  },
  dockerfilePath: {
    path: "runtime.custom.dockerfile_path",
    payload: "dockerfilePath",
    reader: optional(bundlePath),
    meaning:
      "A Dockerfile to build the app's image from: by podman or docker on the host, or in the cluster; see docs/images.md.",
  },
};
