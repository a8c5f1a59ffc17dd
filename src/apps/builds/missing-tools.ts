import { listed } from "./host-fit.ts";
import type { BuildSite } from "./site.ts";

/** A tool or header that a step lacked, and the Debian package that has it; null if that is not known. */
type Missing = { readonly what: string; readonly debian: string | null };

/** Headers and programs that the sources of common packages need, and their Debian packages. */
const DEBIAN_PACKAGES: Readonly<Record<string, string>> = {
  gcc: "build-essential",
  cc: "build-essential",
  "g++": "build-essential",
  "c++": "build-essential",
  make: "build-essential",
  cmake: "cmake",
  git: "git",
  cargo: "cargo",
  rustc: "rustc",
  gfortran: "gfortran",
  "pkg-config": "pkg-config",
  pg_config: "libpq-dev",
  mysql_config: "default-libmysqlclient-dev",
  "Python.h": "python3-dev",
  "libpq-fe.h": "libpq-dev",
  "mysql.h": "default-libmysqlclient-dev",
  "ffi.h": "libffi-dev",
  "zlib.h": "zlib1g-dev",
  "jpeglib.h": "libjpeg-dev",
  "openssl/opensslv.h": "libssl-dev",
  "libxml/xmlversion.h": "libxml2-dev",
  "portaudio.h": "portaudio19-dev",
  "sndfile.h": "libsndfile1-dev",
  "gmp.h": "libgmp-dev",
  "lber.h": "libldap-dev",
  "sasl/sasl.h": "libsasl2-dev",
  "graphviz/cgraph.h": "libgraphviz-dev",
  "cairo.h": "libcairo2-dev",
};

/** How compilers, setuptools, meson and pip say that something is not there. */
const PATTERNS: readonly RegExp[] = [
  /fatal error: (\S+\.h(?:pp)?): No such file or directory/,
  /fatal error: '(\S+\.h(?:pp)?)' file not found/,
  /(?:unable to execute|No such file or directory:|command) '(?:[\w-]+-linux-gnu-)?([\w+-]+)'(?::? No such file| failed: No such file|$)/,
  /\bsh: (?:\d+: )?([\w+-]+): (?:command )?not found/,
  /Cannot find command '([\w+-]+)'/,
  /\b(pg_config|mysql_config|cmake|cargo|pkg-config) (?:executable )?(?:is )?(?:not found|could not be found|not installed)/i,
  /Unknown compiler\(s\): \[\['(cc)'/,
];

/** The beginning of a step, as podman and BuildKit print it. */
const IMAGE_STEP = /^(?:STEP \d+(?:\/\d+)?:|#\d+ \[)/;

const APT =
  /(?:^|[\s;&|("'])(?:sudo\s+)?(?:apt|apt-get|aptitude)\s+(?:-\S+\s+)*(?:install|update|upgrade)\b/m;

/** Whether a command, or a script of commands, installs system packages. */
export function usesApt(text: string): boolean {
  return APT.test(text);
}

/** What to do instead of `apt-get` in a build's commands. */
export function insteadOfApt(site: AptSite): string {
  return (
    `A build's commands may not install system packages. List them in [dependencies.apt]${needs(site)}, ` +
    "or name an image that has them in docker_base_image_url"
  );
}

/** Reads an installer's or image build's lines for the first sign that a compiler, header or program is missing. */
export class MissingTools {
  #found: Missing | null = null;

  take(line: string): void {
    // The steps before it have succeeded, whatever they lacked.
    if (IMAGE_STEP.test(line)) this.#found = null;
    if (this.#found) return;
    const what = PATTERNS.map((pattern) => pattern.exec(line)?.[1]).find((name) => name !== undefined);
    if (what !== undefined) this.#found = { what, debian: DEBIAN_PACKAGES[what] ?? null };
  }

  /** What was missing and how to get it, as sentences after an error; empty if nothing was. */
  async advice(site: BuildSite): Promise<string> {
    if (!this.#found) return "";
    const { what, debian } = this.#found;
    if (site.packagesBy === "dockerfile")
      return `. ${what} is missing in the image: have the Dockerfile install ${debian ?? "its system package"} before this step`;
    const named = await listed("apt", site).catch((): string[] => []);
    const wanted = debian !== null && named.includes(debian) ? [debian] : debian === null ? named : [];
    const missing = `. A package has to be compiled, and ${what} is missing`;
    // Where an image was built, what is listed is in it.
    if (wanted.length > 0 && site.packagesBy !== "apt")
      return `${missing}: [dependencies.apt] lists ${wanted.join(", ")}${needs(site)}`;
    return `${missing}: add ${debian ?? "its system package"} to [dependencies.apt]${needs(site)}`;
  }
}

type AptSite = Pick<BuildSite, "seat" | "packagesBy">;

/** What has to be there before system packages are installed; empty if it is. */
function needs({ seat, packagesBy }: AptSite): string {
  if (packagesBy !== undefined) return "";
  return seat
    ? ", which needs images to be built in the cluster (MILLRACE_REGISTRY, docs/kubernetes.md)"
    : ", which needs podman or docker on this host (docs/images.md)";
}
