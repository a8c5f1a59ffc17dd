import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";

/** A page of the guide before it is rendered. */
export type GuideSource = {
  /** Repository-relative path that links to this page name: a Markdown file, or a folder of examples. */
  readonly file: string;
  /** The page's file name in the built guide. */
  readonly name: string;
  /** Heading of the sidebar under which the page is listed. */
  readonly group: string;
  readonly markdown: string;
};

const REPOSITORY = path.join(import.meta.dirname, "../..");

/** The sidebar, in reading order. A Markdown file of `docs/` that is missing here fails the build. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  "Get started": ["README.md", "examples"],
  "Use it": [
    "docs/api.md",
    "docs/servers.md",
    "docs/gpus.md",
    "docs/batching.md",
    "docs/queues.md",
    "docs/batches.md",
    "docs/schedules.md",
    "docs/images.md",
    "docs/clients.md",
    "docs/webhooks.md",
    "docs/cli.md",
    "docs/config.md",
    "docs/migrate.md",
    "docs/moving/modal.md",
    "docs/moving/replicate.md",
    "docs/moving/bentoml.md",
    "docs/moving/litserve.md",
    "docs/moving/ray-serve.md",
    "docs/logs.md",
    "docs/errors.md",
  ],
  "Run it": [
    "docs/operations.md",
    "docs/cluster.md",
    "docs/kubernetes.md",
    "docs/helm.md",
    "docs/ray.md",
    "docs/scale.md",
    "docs/accounts.md",
    "docs/management.md",
    "docs/metrics.md",
    "docs/telemetry.md",
    "docs/guarantees.md",
    "docs/benchmarks.md",
    "SECURITY.md",
    "docs/security.md",
    "CHANGELOG.md",
  ],
  "Work on it": ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/wire.md"],
};

/** Every page of the guide, in the order of its sidebar; decisions come last, by number. */
export function readSources(): GuideSource[] {
  const listed = Object.entries(GROUPS).flatMap(([group, files]) => files.map((file) => ({ group, file })));
  const decisions = markdownIn("docs/decisions").map((file) => ({ group: "Decisions", file }));
  const unlisted = [...markdownIn("docs"), ...markdownIn("docs/moving")].filter(
    (file) => !listed.some((page) => page.file === file),
  );
  if (unlisted.length > 0) throw new Error(`not in the sidebar of the guide: ${unlisted.join(", ")}`);
  return [...listed, ...decisions].map(({ group, file }) => ({
    file,
    name: nameOf(file),
    group,
    markdown: file === "examples" ? examplesPage() : read(file),
  }));
}

/** The bytes of a file that the guide takes along, such as a picture. */
export function readAsset(file: string): Buffer {
  return readFileSync(path.join(REPOSITORY, file));
}

function nameOf(file: string): string {
  if (file === "README.md") return "index.html";
  // Beside docs/security.md.
  if (file === "SECURITY.md") return "security-policy.html";
  return `${path.basename(file, ".md").toLowerCase()}.html`;
}

/** The file of an example that is shown, and the language it is in. */
const PROGRAMS = { "main.py": "python", "server.py": "python", "server.mjs": "js" };

/** One page with all examples: what each one's README says, and its program. */
function examplesPage(): string {
  const names = readdirSync(path.join(REPOSITORY, "examples")).toSorted();
  const parts = names.map((name) => {
    const folder = `examples/${name}`;
    const readme = read(`${folder}/README.md`)
      .replace(/^# /, "## ")
      .replaceAll(/\]\((?![a-z]+:)([^)]+)\)/g, (_, to: string) => `](${path.posix.join(folder, to)})`);
    const files = readdirSync(path.join(REPOSITORY, folder));
    const [file, language] = Object.entries(PROGRAMS).find(([program]) => files.includes(program)) ?? [];
    if (file === undefined) throw new Error(`${folder} has none of ${Object.keys(PROGRAMS).join(", ")}`);
    return `${readme}\nIts \`${file}\`:\n\n\`\`\`${language}\n${read(`${folder}/${file}`)}\`\`\`\n`;
  });
  const intro =
    "`millrace start` deploys those that need no packages and no image. Copy one to begin your own.\n";
  return ["# Examples\n", intro, ...parts].join("\n");
}

function markdownIn(folder: string): string[] {
  return readdirSync(path.join(REPOSITORY, folder))
    .filter((name) => name.endsWith(".md"))
    .toSorted()
    .map((name) => `${folder}/${name}`);
}

function read(file: string): string {
  return readFileSync(path.join(REPOSITORY, file), "utf8");
}
