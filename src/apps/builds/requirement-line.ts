/** Options that have a line of their own. */
const REQUIREMENT_FLAGS = ["--pre", "--no-index", "--require-hashes"] as const;
export type RequirementFlag = (typeof REQUIREMENT_FLAGS)[number];

/** What one line of a requirements file asks for. */
export type RequirementLine =
  /** A package by name or address, in a form that is equal for equal requirements. */
  | { readonly kind: "package"; readonly text: string }
  /** A package in the bundle; `after` is what follows its path. */
  | { readonly kind: "local"; readonly path: string; readonly after: string }
  /** Another file of the bundle. */
  | { readonly kind: "requirements" | "constraints"; readonly path: string }
  /** A folder of the bundle in which packages are looked for. */
  | { readonly kind: "links"; readonly path: string }
  | { readonly kind: "flag"; readonly flag: RequirementFlag }
  | { readonly kind: "refused"; readonly why: string };

/** With `s`, here and below: the last part matches anything, so that there is no backtracking. */
const NAME = /^([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)\s*(\[[a-z0-9._,\s-]*\])?\s*(.*)$/is;
const CLAUSE = String.raw`(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+`;
const SPEC = new RegExp(String.raw`^(?:${CLAUSE}(?:\s*,\s*${CLAUSE})*\s*,?)?$`);
const MARKER_NAMES =
  "python_version|python_full_version|os_name|sys_platform|platform_[a-z]|implementation_[a-z]|extra";
const MARKER = new RegExp(String.raw`^[\s(]*(?:${MARKER_NAMES}|'|")[\w\s.,'"()<>=!~*+-]*$`);
const HASH = /\s--hash(?:=|\s+)((?:sha256|sha384|sha512):[0-9a-f]+)(?=\s|$)/gi;
const ARCHIVE = /\.(whl|zip|tar\.gz|tar\.bz2|tgz)$/i;
const INDEX_OPTIONS = /^(-i|--index-url|--extra-index-url|--trusted-host|--pypi-url)\b/;

/** The lines of a requirements file, continued ones joined, without comments and empty ones. */
export function requirementLines(text: string): { readonly number: number; readonly text: string }[] {
  const lines: { number: number; text: string }[] = [];
  let begun: { number: number; text: string } | null = null;
  for (const [index, raw] of text.split(/\r\n|\r|\n/).entries()) {
    const line: { number: number; text: string } = begun ?? { number: index + 1, text: "" };
    // A comment is never continued: it would take the next requirement with it.
    const isComment = /^\s*#/.test(raw);
    line.text += isComment ? ` ${raw}` : raw.replace(/\\$/, "");
    begun = raw.endsWith("\\") && !isComment ? line : null;
    if (!begun) lines.push(line);
  }
  if (begun) lines.push(begun);
  return lines
    .map((line) => ({ number: line.number, text: line.text.replace(/(^|\s)#.*$/s, "").trim() }))
    .filter((line) => line.text !== "");
}

/** Reads one line. Only what is known to be harmless is taken: an installer would do much more. */
export function readRequirement(line: string): RequirementLine {
  if (/[\p{Cc}\p{Zl}\p{Zp}$`\\]/u.test(line))
    return refused("has a character that is not allowed in a requirement");
  if (line.startsWith("-")) return readOption(line);
  const hashes = [...line.matchAll(HASH)].map(([, hash]) => ` --hash=${hash?.toLowerCase()}`).toSorted();
  const bare = line.replaceAll(HASH, "").trim();
  if (/\s--?[a-z]/i.test(bare)) return refused("has an option that is not supported");
  const after = hashes.join("");
  const read = readBare(bare);
  if (read.kind === "package") return { ...read, text: read.text + after };
  return read.kind === "local" ? { ...read, after } : read;
}

/** The line that an entry of `[dependencies.pip]` stands for. */
export function tableRequirement(name: string, spec: string): string {
  const wish = spec.trim();
  if (["", "*", "latest"].includes(wish)) return name;
  if (/^[a-z+]+:\/\//i.test(wish)) return `${name} @ ${wish}`;
  return /^\d/.test(wish) ? `${name}==${wish}` : `${name} ${wish}`;
}

function readOption(line: string): RequirementLine {
  const [, option = "", value = ""] = /^(--[a-z-]+|-[a-z])(?:\s*=\s*|\s+)?(.*)$/is.exec(line) ?? [];
  const flag = REQUIREMENT_FLAGS.find((known) => known === line);
  if (flag) return { kind: "flag", flag };
  if (INDEX_OPTIONS.test(line)) {
    return refused(
      "sets a package index: only the host's pip settings (PIP_INDEX_URL, pip.conf) can do that",
    );
  }
  if (option === "-e" || option === "--editable")
    return refused("is an editable install, which would not outlive the build: write ./folder instead");
  const kinds = {
    "-r": "requirements",
    "--requirement": "requirements",
    "-c": "constraints",
    "--constraint": "constraints",
    "-f": "links",
    "--find-links": "links",
  } as const;
  const kind = Object.entries(kinds).find(([name]) => name === option)?.[1];
  if (!kind) return refused("is not a supported option");
  const why = outsideBundle(value);
  return why === null ? { kind, path: value } : refused(why);
}

function readBare(line: string): RequirementLine {
  if (/^[a-z0-9+.-]+:/i.test(line)) {
    const why = wrongAddress(line);
    return why === null ? { kind: "package", text: line } : refused(why);
  }
  if (/^[./~]/.test(line) || (ARCHIVE.test(line) && !line.includes("@"))) {
    const why = outsideBundle(line);
    return why === null ? { kind: "local", path: line, after: "" } : refused(why);
  }
  const [, name = "", extras = "", rest = ""] = NAME.exec(line) ?? [];
  if (name === "") return refused("is not a requirement");
  const subject = name.toLowerCase().replaceAll(/[-_.]+/g, "-") + extras.replaceAll(/\s/g, "").toLowerCase();
  if (rest.startsWith("@")) return readAddressed(subject, rest.slice(1).trim());
  const [spec = "", ...markers] = rest.split(";");
  const marker = readMarker(markers);
  if (marker === null) return refused("has an invalid condition after its semicolon");
  const plain = spec
    .trim()
    .replace(/^\((.*)\)$/, "$1")
    .trim();
  if (!SPEC.test(plain)) return refused("has an invalid version");
  return { kind: "package", text: subject + plain.replaceAll(/\s/g, "") + marker };
}

function readAddressed(subject: string, rest: string): RequirementLine {
  const [address = "", ...markers] = rest.split(/\s;/);
  const why = wrongAddress(address.trim());
  if (why !== null) return refused(why);
  const marker = readMarker(markers);
  if (marker === null) return refused("has an invalid condition after its semicolon");
  return { kind: "package", text: `${subject} @ ${address.trim()}${marker}` };
}

/** The marker to write; empty for none, null for what is not one. */
function readMarker(parts: readonly string[]): string | null {
  if (parts.length === 0) return "";
  const text = parts.join(";").trim().replaceAll(/\s+/g, " ");
  return MARKER.test(text) ? ` ; ${text}` : null;
}

function wrongAddress(address: string): string | null {
  if (/^file:/i.test(address)) return "names a file: write its path in the bundle, such as ./wheels/name.whl";
  const fits = /^(git\+)?https:\/\/[^\s'"<>]+$/.test(address) && URL.canParse(address.replace(/^git\+/, ""));
  return fits ? null : "has an unsupported URL: only https:// and git+https:// work";
}

function outsideBundle(name: string): string | null {
  if (/^[a-z0-9+.-]+:/i.test(name)) return "is a URL; only a path in the bundle works here";
  if (name === "" || /^[/~]/.test(name)) return "must name a path in the bundle, such as ./vendor/name";
  return name.split("/").includes("..") ? "must name a path in the bundle, without .." : null;
}

function refused(why: string): RequirementLine {
  return { kind: "refused", why };
}
