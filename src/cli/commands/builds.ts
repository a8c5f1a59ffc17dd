import type { Command } from "commander";
import { BUILD, BUILDS, BUILD_LOG } from "../../shapes/builds.ts";
import type { ListedBuild } from "../../shapes/builds.ts";
import type { Api } from "../api/api.ts";
import { CliFailure } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { relative } from "../output/amounts.ts";
import { paint, paintStatus, printable } from "../output/paint.ts";
import { table } from "../output/table.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";
import { followBuild } from "./follow-build.ts";

/** `millrace builds list|logs|cancel` */
export function defineBuilds(command: Command): void {
  const list = remote(command.command("list")).description("list an app's builds, newest first");
  list.argument("<app>", "the app's name");
  examples(list, "millrace builds list hello").action(withService(listBuilds));

  const logs = remote(command.command("logs")).description("print a build's log");
  logs
    .argument("<app>", "the app's name")
    .argument("[build]", "the build (default: the newest)")
    .option("-f, --follow", "keep printing until the build ends");
  examples(logs, "millrace builds logs hello --follow").action(withService(showLogs));

  const cancel = remote(command.command("cancel")).description("cancel a running build");
  cancel.argument("<app>", "the app's name").argument("[build]", "the build (default: the newest)");
  examples(cancel, "millrace builds cancel hello").action(withService(cancelBuild));
}

/** The build to go back to: the successful one before that which serves. */
export async function findEarlier(api: Api, app: string): Promise<string> {
  const good = (await buildsOf(api, app)).filter(({ status }) => status === "success");
  const serving = good.findIndex(({ isServing }) => isServing);
  const earlier = serving < 0 ? undefined : good[serving + 1];
  if (!earlier)
    throw new CliFailure(`${app} has no earlier version`, { hint: `millrace builds list ${app}` });
  return earlier.id;
}

/** Why a build failed, null when nothing is known of it; and whether an earlier version serves. */
export async function afterFailure(
  api: Api,
  app: string,
  buildId: string,
): Promise<{ message: string | null; isServing: boolean }> {
  const builds = await buildsOf(api, app);
  const message = builds.find(({ id }) => id === buildId)?.message ?? null;
  return { message, isServing: builds.some((build) => build.isServing) };
}

async function buildsOf(api: Api, app: string): Promise<readonly ListedBuild[]> {
  return await api.get(BUILDS, await api.appPath(app, "/builds"), { about: { app } });
}

async function newestOf(api: Api, app: string): Promise<string> {
  const [newest] = await buildsOf(api, app);
  if (!newest) throw new CliFailure(`${app} has no builds`, { hint: "millrace deploy" });
  return newest.id;
}

async function listBuilds({ api, out }: Task, app: string): Promise<void> {
  const builds = await buildsOf(api, app);
  out.show(builds, () =>
    table(
      ["BUILD", "STATUS", "CREATED", "ENDED", "MESSAGE"],
      builds.map(({ id, status, createdAt, updatedAt, message }) => [
        id,
        paintStatus(status),
        relative(createdAt),
        relative(updatedAt),
        printable(message ?? ""),
      ]),
    ),
  );
}

async function showLogs(
  task: Task<RemoteFlags & { follow?: boolean }>,
  app: string,
  build?: string,
): Promise<void> {
  const { api, flags, out } = task;
  const id = build ?? (await newestOf(api, app));
  if (flags.follow) {
    const { status } = await followBuild(api, app, id, (line) => out.line(line, printable(line.log)));
    if (status !== "success") throw new CliFailure(`the build ended as ${status}`);
    return;
  }
  const found = await api.get(BUILD_LOG, await api.appPath(app, `/builds/${id}/logs`), { about: { app } });
  out.show(found, () =>
    found.logs
      .map(({ createdAt, log }) => `${paint("dim", createdAt.slice(11, 19))}  ${printable(log)}\n`)
      .join(""),
  );
  out.note(`build ${id}: ${found.status}`);
}

async function cancelBuild({ api, out }: Task, app: string, build?: string): Promise<void> {
  const id = build ?? (await newestOf(api, app));
  const answer = await api.ask(BUILD, "DELETE", await api.appPath(app, `/builds/${id}`), { about: { app } });
  out.show(answer, () => `build ${id} is cancelled.\n`);
}
