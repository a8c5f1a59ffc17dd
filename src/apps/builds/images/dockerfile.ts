/** What the image of an app without a Dockerfile holds. */
export type ImageLayers = {
  readonly base: string;
  readonly apt: readonly string[];
  readonly before: readonly string[];
  readonly after: readonly string[];
  /** A file of Python packages, in the context; null for none. */
  readonly requirements: string | null;
  /** Python packages are files of the app itself. */
  readonly needsApp: boolean;
  /** The app's own files, in the context. */
  readonly bundle: string;
  /** Who they belong to; null for root. */
  readonly user: number | null;
};

/** Where an app's own files are, and its Python packages. */
const APP = "/cortex";
const ENVIRONMENT = "/opt/millrace/env";
/** The interpreter of an image that was made from these lines. */
export const IMAGE_PYTHON = `${ENVIRONMENT}/bin/python`;

/** The harness runs on nothing older. */
const CHECK_PYTHON =
  "import sys; sys.exit(None if sys.version_info >= (3, 9) else 'the image has Python %d.%d; the oldest that works is 3.9' % sys.version_info[:2])";
const HAS_PYTHON = "command -v python3 >/dev/null 2>&1";

/** A Dockerfile for an app that has none: what changes least comes first, so that its layers are found again. */
export function dockerfileFor(layers: ImageLayers): string {
  const { base, apt, before, after, requirements, needsApp, bundle, user } = layers;
  const owner = user === null ? "" : `--chown=${user}:${user} `;
  const copyApp = `COPY ${owner}${JSON.stringify([`${bundle}/`, `${APP}/`])}`;
  // Without pip it takes a tenth of the time.
  const needsPip = requirements !== null || before.length + after.length > 0;
  const environment = `python3 -m venv --system-site-packages ${needsPip ? "" : "--without-pip "}${ENVIRONMENT}`;
  const copiesFirst = before.length > 0 || needsApp;
  const lines = [
    `FROM ${base}`,
    "USER 0",
    `WORKDIR ${APP}`,
    // Both are part of Python, but Debian has them as packages of their own.
    shell(`${HAS_PYTHON} || { ${install(["python3", "python3-venv"])}; }`),
    shell(`${environment} || { ${install(["python3-venv"])} && ${environment}; }`),
    exec([IMAGE_PYTHON, "-c", CHECK_PYTHON]),
    `ENV PATH="${ENVIRONMENT}/bin:$PATH" VIRTUAL_ENV="${ENVIRONMENT}"`,
  ];
  if (apt.length > 0) lines.push(installPackages(apt));
  if (copiesFirst) lines.push(copyApp);
  lines.push(...before.map(shell));
  if (requirements !== null) {
    lines.push(`COPY ${JSON.stringify([requirements, "/opt/millrace/requirements.txt"])}`);
    const pip = [IMAGE_PYTHON, "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check"];
    const settings = "--mount=type=secret,id=pip,target=/etc/pip.conf";
    lines.push(`RUN ${settings} ${[...pip, "--requirement", "/opt/millrace/requirements.txt"].join(" ")}`);
  }
  if (!copiesFirst) lines.push(copyApp);
  lines.push(...after.map(shell));
  return `${lines.join("\n")}\n`;
}

/** The line that installs system packages. */
export function installPackages(names: readonly string[]): string {
  return shell(install(names));
}

function install(packages: readonly string[]): string {
  const names = packages.map((name) => `'${name.replaceAll("'", "")}'`).join(" ");
  return `apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${names} && rm -rf /var/lib/apt/lists/*`;
}

/** As a list, in which a command may have several lines. */
function shell(command: string): string {
  return exec(["/bin/sh", "-c", command]);
}

function exec(words: readonly string[]): string {
  return `RUN ${JSON.stringify(words)}`;
}
