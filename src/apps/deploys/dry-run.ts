import { removeTree } from "../../kit/remove-tree.ts";
import type { LogStream } from "../../model/log-line.ts";
import { inspectBuild } from "../builds/inspect.ts";
import { buildHost } from "../builds/site.ts";
import { type CarryOutParts, readConfig, unpack, type ZipSource } from "./carry-out.ts";
import { failureOf } from "./deploy-failure.ts";

/** What a deploy of a bundle would do. */
export type DryRun = {
  readonly plan: readonly string[];
  readonly warnings: readonly string[];
  /** Why it would fail; empty if nothing is known that would make it. */
  readonly problems: readonly string[];
};

/** What is asked. */
export type DryRunRequest = {
  readonly id: string;
  readonly projectId: string;
  readonly name: string;
  readonly checksSyntax: boolean;
  readonly source: ZipSource;
  readonly signal: AbortSignal;
};

const WARNING = /^warning: /;

/** Checks a bundle as a deploy would before its build, and says what would follow. Nothing is left of it. */
export async function dryRun(request: DryRunRequest, parts: CarryOutParts): Promise<DryRun> {
  const { id: buildId, projectId, name, checksSyntax, source, signal } = request;
  const warnings: string[] = [];
  const say = (text: string, stream?: LogStream): void => {
    if (stream === "stderr" && WARNING.test(text)) warnings.push(text.replace(WARNING, ""));
  };
  const log = { say: (_: string, text: string, stream?: LogStream) => say(text, stream) };
  const payload = { name };
  try {
    const { bundleDir, noMain } = await unpack({ buildId, payload, source, log, signal }, parts);
    const config = readConfig({ payload, log }, parts, bundleDir);
    if (noMain !== null && config.customRuntime === null) return { plan: [], warnings, problems: [noMain] };
    const input = { ...buildHost(parts), buildId, projectId, bundleDir, config, say, signal, checksSyntax };
    const { plan, problems } = await inspectBuild(input);
    return { plan, problems, warnings };
  } catch (error) {
    const failure = failureOf(error);
    if (!failure) throw error;
    return { plan: [], warnings, problems: failure.lines };
  } finally {
    await removeTree(parts.folders.workOf(buildId));
  }
}
