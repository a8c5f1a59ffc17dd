import path from "node:path";
import { z } from "zod";
import { realpath } from "../../../kit/files.ts";
import type { BuiltImage } from "../../../model/app-config.ts";
import type { BuildGround, Builder, ImageBuilds } from "../../../engines/build-seats.ts";
import { BuildError, type BuildSite } from "../site.ts";
import { checkSyntaxForImage } from "../compile-bundle.ts";
import { MissingTools } from "../missing-tools.ts";
import { installPackages } from "../images/dockerfile.ts";

/** An image that is to be built in a seat. */
export type ImagePlan =
  /** The app's own Dockerfile, by its real place in the bundle. */
  | { readonly kind: "dockerfile"; readonly file: string }
  /** System packages over an image. */
  | { readonly kind: "packages"; readonly base: string; readonly apt: readonly string[] };

const MAX_WORDS = 200;
const MAX_WORD_CHARS = 4_096;
const word = z.string().max(MAX_WORD_CHARS);
/** The last line of the program in the seat. */
const ANSWER = z.strictObject({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  folder: word.startsWith("/"),
  command: z.array(word).max(MAX_WORDS),
  variables: z.record(word, word).refine((all) => Object.keys(all).length <= MAX_WORDS),
});
/** Logins go by the wire, with the order. */
const MAX_LOGINS_CHARS = 64 * 1024;

/** Has an image built in a seat for images, and pushed; gives it by its digest. */
export async function buildRemoteImage(
  plan: ImagePlan,
  { registry, tools }: ImageBuilds,
  ground: BuildGround,
  site: BuildSite & { readonly seat: Builder },
): Promise<BuiltImage> {
  const { buildId, projectId, bundleDir, config, registryAuth, seat, say } = site;
  // Without a Dockerfile, the image's own Python reads the files later.
  if (plan.kind === "dockerfile") await checkSyntaxForImage(ground.python, site);
  const folder = imageFolder(registry, projectId);
  const name = `${folder}/${config.deployment.name ?? "app"}`;
  const bundle = path.posix.join(ground.folder, "bundle");
  const aside = path.posix.join(ground.folder, "aside");
  const files: Record<string, string> = {};
  const logins = registryAuth && JSON.stringify(registryAuth);
  if (logins && logins.length <= MAX_LOGINS_CHARS) files["sent.txt"] = logins;
  if (plan.kind === "packages") files["dockerfile.txt"] = packagesOver(plan.base, plan.apt);
  const order = {
    ...tools,
    registry,
    folder,
    aside,
    context: bundle,
    name: `${name}:${buildId}`,
    cache: `${name}:cache`,
    sent: "sent.txt" in files ? path.posix.join(aside, "sent.txt") : null,
    dockerfile:
      plan.kind === "packages"
        ? path.posix.join(aside, "dockerfile.txt")
        : path.posix.join(bundle, path.relative(await realpath(bundleDir), plan.file)),
  };
  say(`building the image with BuildKit, for ${folder}…`);
  const startedAt = performance.now();
  const missing = new MissingTools();
  let answer = "";
  const { code, lastWords, detail } = await seat.run({
    program: ground.python.path,
    args: ["-I", tools.script, JSON.stringify(order)],
    env: {},
    files,
    // BuildKit prints its progress on stderr; stdout is the program's own.
    onLine: (text, stream) => {
      if (stream === "stdout") answer = text;
      else {
        missing.take(text);
        say(text);
      }
    },
  });
  if (code !== 0) {
    const advice = plan.kind === "dockerfile" ? await missing.advice({ ...site, packagesBy: plan.kind }) : "";
    throw new BuildError(`${whatFailed(lastWords)}: ${lastWords || detail}${advice}`);
  }
  const { digest, ...start } = readAnswer(answer);
  if (config.customRuntime?.entrypoint.length === 0 && start.command.length === 0)
    throw new BuildError(
      "the image has neither ENTRYPOINT nor CMD: have its Dockerfile set one, or set runtime.custom.entrypoint",
    );
  say(`image ready in ${((performance.now() - startedAt) / 1000).toFixed(1)} s: ${name}@${digest}`);
  return { reference: `${name}@${digest}`, start: plan.kind === "dockerfile" ? start : null };
}

/** Where the images of a project, and of no other, are. */
export function imageFolder(registry: string, projectId: string): string {
  return `${registry}/${projectId}`;
}

/** What failed, and who can mend it, by BuildKit's last words. */
function whatFailed(words: string): string {
  if (words.includes("exit code: 137"))
    return "the image could not be built, perhaps for want of memory (hardware.memory)";
  if (!words.includes("failed to push")) return "the image could not be built";
  return /\b40[13]\b|denied|authoriz/i.test(words)
    ? "the image could not be pushed: the operator has to give MILLRACE_REGISTRY_SECRET a login that opens MILLRACE_REGISTRY"
    : "the image could not be pushed, deploy again when the registry answers";
}

function readAnswer(text: string): z.infer<typeof ANSWER> {
  try {
    return ANSWER.parse(JSON.parse(text));
  } catch {
    throw new BuildError("BuildKit did not tell which image it has built");
  }
}

function packagesOver(base: string, apt: readonly string[]): string {
  return `FROM ${base}\nUSER 0\n${installPackages(apt)}\n`;
}
