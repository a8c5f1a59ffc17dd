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
  /** What the page is called there; its title if undefined. */
  readonly label: string | undefined;
  /** Whether it tells how Millrace is made, not how it is used: the search shows it after other pages. */
  readonly isForContributors: boolean;
  readonly markdown: string;
};

const REPOSITORY = path.join(import.meta.dirname, "../..");

/**
 * The sidebar, by task and in reading order: each group with its pages, and what each is called there. A Markdown file
 * of `docs/` that is missing here fails the build.
 */
const SIDEBAR: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Start: { "README.md": "Start" },
  Concepts: { "docs/concepts.md": "Concepts" },
  "Your first app": { "docs/first-app.md": "From a folder to an API", examples: "Examples" },
  "Packages and Python": { "docs/packages.md": "Packages and Python", "docs/images.md": "Images" },
  "Models, weights, GPUs": { "docs/models.md": "Serve a model", "docs/gpus.md": "GPUs" },
  Scaling: { "docs/scaling.md": "Scaling" },
  "Calling it": {
    "docs/api.md": "The run endpoint",
    "docs/clients.md": "Client libraries",
    "docs/webhooks.md": "Webhooks",
  },
  "Servers and WebSockets": { "docs/servers.md": "Servers and WebSockets" },
  Batching: { "docs/batching.md": "Batching" },
  "Queues, schedules, batches": {
    "docs/queues.md": "Queues",
    "docs/schedules.md": "Schedules",
    "docs/batches.md": "Batches",
  },
  Install: {
    "docs/install.md": "Laptop, VM, Docker",
    "docs/kubernetes.md": "Kubernetes",
    "docs/helm.md": "Helm chart",
    "docs/ray.md": "Ray",
    "docs/cluster.md": "Several nodes",
  },
  Operate: {
    "docs/operations.md": "Operations",
    "docs/accounts.md": "Accounts and tokens",
    "docs/security.md": "Isolation of apps",
    "SECURITY.md": "Security policy",
    "docs/logs.md": "Logs",
    "docs/metrics.md": "Metrics",
    "docs/telemetry.md": "Traces and OpenTelemetry",
    "docs/usage.md": "Usage and quotas",
    "docs/scale.md": "Large installations",
  },
  "CI/CD": { "docs/ci.md": "CI/CD" },
  "Moving here": {
    "docs/migrate.md": "From Cerebrium",
    "docs/moving/modal.md": "From Modal",
    "docs/moving/replicate.md": "From Replicate",
    "docs/moving/bentoml.md": "From BentoML",
    "docs/moving/litserve.md": "From LitServe",
    "docs/moving/ray-serve.md": "From Ray Serve",
  },
  Reference: {
    "docs/cli.md": "Command line",
    "docs/config.md": "Configuration",
    "docs/errors.md": "Errors",
    "docs/management.md": "Management API",
    "docs/guarantees.md": "Guarantees",
    "docs/benchmarks.md": "Benchmarks",
    "CHANGELOG.md": "Changelog",
  },
  "For contributors": {
    "ARCHITECTURE.md": "Architecture",
    "CONTRIBUTING.md": "Contributing",
    "docs/wire.md": "The wire",
  },
};

/** The group of the decision records, which is last and closed unless one of them is open. */
export const DECISIONS = "Decisions";

/** Groups and files that say how something is or was made or measured: they name everything, and explain little. */
const FOR_CONTRIBUTORS = new Set(["For contributors", DECISIONS, "CHANGELOG.md", "docs/benchmarks.md"]);

/** Every page of the guide, in the order of its sidebar; decisions come last, by number. */
export function readSources(): GuideSource[] {
  const listed = Object.entries(SIDEBAR).flatMap(([group, labels]) =>
    Object.entries(labels).map(([file, label]) => ({ file, group, label })),
  );
  const decisions = markdownIn("docs/decisions").map((file) => ({
    file,
    group: DECISIONS,
    label: undefined,
  }));
  const unlisted = [...markdownIn("docs"), ...markdownIn("docs/moving")].filter(
    (file) => !listed.some((page) => page.file === file),
  );
  if (unlisted.length > 0) throw new Error(`not in the sidebar of the guide: ${unlisted.join(", ")}`);
  return [...listed, ...decisions].map(({ file, group, label }) => ({
    file,
    name: nameOf(file),
    group,
    label,
    isForContributors: FOR_CONTRIBUTORS.has(group) || FOR_CONTRIBUTORS.has(file),
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
