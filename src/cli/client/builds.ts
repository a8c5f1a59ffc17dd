import { BUILD, BUILD_FRAME, BUILD_LOG, BUILDS } from "../../shapes/builds.ts";
import type { BuildFrame, BuildRecord, ListedBuild } from "../../shapes/builds.ts";
import { CliFailure } from "../failure.ts";
import { type Definitions } from "../options.ts";
import { paint, paintStatus, printable, relative } from "../output.ts";
import type { Api } from "./api.ts";
import type { SocketEnd } from "./tail-socket.ts";
import { asking, type RemoteFlags, type Task } from "./task.ts";

const BUILD_ARGUMENT = ["[build]", "the build (default: the newest)"] as const;

export const COMMANDS: Definitions = {
  builds(command) {
    asking(command, "list <app>", "list an app's builds, newest first", listBuilds, "hello");
    asking(command, "logs <app>", "print a build's log", showLogs, "hello --follow")
      .argument(...BUILD_ARGUMENT)
      .option("-f, --follow", "keep printing until the build ends");
    asking(command, "cancel <app>", "cancel a running build", cancelBuild, "hello").argument(
      ...BUILD_ARGUMENT,
    );
  },
};

/** The build to go back to: the successful one before the build that serves. */
export async function findEarlier(api: Api, app: string): Promise<string> {
  const good = (await buildsOf(api, app)).filter(({ status }) => status === "success");
  const serving = good.findIndex(({ isServing }) => isServing);
  const earlier = serving < 0 ? undefined : good[serving + 1];
  if (!earlier)
    throw new CliFailure(`${app} has no earlier version`, { hint: `millrace builds list ${app}` });
  return earlier.id;
}

/** Why a build failed, null if unknown; and whether an earlier version serves. */
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
  out.list(await buildsOf(api, app), {
    BUILD: ({ id }) => id,
    STATUS: ({ status }) => paintStatus(status),
    CREATED: ({ createdAt }) => relative(createdAt),
    ENDED: ({ updatedAt }) => relative(updatedAt),
    MESSAGE: ({ message }) => printable(message ?? ""),
  });
}

async function showLogs(
  { api, flags, out }: Task<RemoteFlags & { follow?: boolean }>,
  app: string,
  build?: string,
): Promise<void> {
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

/** Gives every line of a build's log, from the first to the last, and resolves with how it ended. */
export async function followBuild(
  api: Api,
  app: string,
  buildID: string,
  onLine: (line: BuildFrame) => void,
): Promise<BuildRecord> {
  const projectID = await api.project();
  let after: string | undefined;
  const source = {
    shape: BUILD_FRAME,
    path: "/ws-build-logs",
    query: () => ({ projectID, buildID, after }),
    isOver: ({ code }: SocketEnd) => code === 1000,
  };
  // Loaded only here: the package for WebSockets would slow down every command that looks at builds.
  const { followFrames } = await import("./tail-socket.ts");
  const isOver = await followFrames(api, source, (frame) => {
    after = frame.timestamp;
    onLine(frame);
  });
  if (isOver) return await api.get(BUILD, await api.appPath(app, `/builds/${buildID}`), { about: { app } });
  throw new CliFailure("the connection to the build's log was lost too often", {
    hint: `millrace builds logs ${app} ${buildID}`,
  });
}
