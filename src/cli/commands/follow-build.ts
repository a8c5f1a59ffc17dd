import { setTimeout as sleep } from "node:timers/promises";
import { BUILD, BUILD_FRAME } from "../../shapes/builds.ts";
import type { BuildFrame, BuildRecord } from "../../shapes/builds.ts";
import type { Api } from "../api/api.ts";
import { readFrames, requireRenewable } from "../api/tail-socket.ts";
import { CliFailure } from "../failure.ts";

const ENDED = 1000;
const GAP_MS = 500;
const MAX_LOSSES = 120;

/** Gives every line of a build's log, from the first to the last, and resolves with how it ended. */
export async function followBuild(
  api: Api,
  app: string,
  buildID: string,
  onLine: (line: BuildFrame) => void,
): Promise<BuildRecord> {
  const projectID = await api.project();
  let after: string | undefined;
  for (let losses = 0; losses < MAX_LOSSES; losses += 1) {
    const end = await readFrames(
      api,
      BUILD_FRAME,
      "/ws-build-logs",
      { projectID, buildID, after },
      (frame) => {
        after = frame.timestamp;
        losses = 0;
        onLine(frame);
      },
    );
    if (end.code === ENDED) {
      return await api.get(BUILD, await api.appPath(app, `/builds/${buildID}`), { about: { app } });
    }
    requireRenewable(end);
    await sleep(GAP_MS, undefined, { signal: api.signal });
  }
  throw new CliFailure("the connection to the build's log was lost too often", {
    hint: `millrace builds logs ${app} ${buildID}`,
  });
}
