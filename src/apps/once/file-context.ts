import { availableParallelism } from "node:os";
import { readAppConfig } from "../../config/app-config.ts";
import { type AppConfig, pythonWish } from "../../model/app-config.ts";
import type { App } from "../../model/app.ts";
import { appVariables, limitsOf } from "../workload.ts";
import type { AppLogLine, Catalog } from "../catalog.ts";
import { type Secrets, WHOLE_PROJECT } from "../secrets.ts";
import { unpackTar } from "./unpack-tar.ts";

/** What holds for an app that has no configuration. */
export function defaultConfig(): AppConfig {
  return readAppConfig({ host: { cpuCount: availableParallelism() } }).config;
}

type FileContextParts = {
  readonly catalog: Pick<Catalog, "byNumber">;
  readonly secrets: Pick<Secrets, "read">;
  readonly onLog: (line: AppLogLine) => void;
};

type Line = Pick<AppLogLine, "text" | "stream">;

/** What a file run takes from its app: its Python, its limits, its variables, its log. */
export function fileContext({ catalog, secrets, onLog }: FileContextParts) {
  // An app that serves nothing has no configuration.
  const configOf = ({ number }: App) => catalog.byNumber(number)?.version.config ?? defaultConfig();
  return {
    unpack: (tar: AsyncIterable<Buffer>, folder: string): Promise<void> => unpackTar(tar, folder),
    timeLimitMs: (app: App): number => configOf(app).scaling.responseGracePeriodSeconds * 1000,
    python: (app: App) => pythonWish(configOf(app).deployment),
    limits: (app: App) => limitsOf(configOf(app)),
    sockets: (app: App) => configOf(app).deployment,
    variables: async (app: App, runId: string): Promise<Record<string, string>> => {
      const { projectId, number } = app;
      const [ofProject, ofApp] = await Promise.all(
        [WHOLE_PROJECT, number].map((appNumber) => secrets.read({ projectId, appNumber })),
      );
      return appVariables(app, { RUN_ID: runId }, { ...ofProject, ...ofApp });
    },
    onLine: ({ projectId, name, number }: App, runId: string, { text, stream }: Line): void =>
      onLog({ projectId, appName: name, appNumber: number, replicaId: runId, runId, stream, text }),
  };
}
