import type { Command } from "commander";
import { ID } from "../../shapes/common.ts";
import { SESSIONS } from "../../shapes/people.ts";
import { Api } from "../api/api.ts";
import { changeProfile, readProfiles } from "../api/profiles.ts";
import { checkedUrl } from "../api/site.ts";
import { usage } from "../failure.ts";
import { interruptible } from "../interrupt.ts";
import { examples } from "../options.ts";
import { Output } from "../output/output.ts";

/** `millrace logout [URL]` */
export function defineLogout(command: Command): void {
  command
    .argument("[url]", "management address of the service (default: the current one)")
    .option("--json", "print one JSON document");
  examples(command, "millrace logout").action(
    async (url: string | undefined, flags: { json?: boolean }) =>
      await interruptible(async (signal) => await logout(url, new Output(flags), signal)),
  );
}

async function logout(given: string | undefined, out: Output, signal: AbortSignal): Promise<void> {
  const { current, servers } = readProfiles();
  const url = given === undefined ? current : checkedUrl(given);
  const profile = url === null ? undefined : servers[url];
  if (url === null || !profile)
    throw usage(url === null ? "you are not signed in" : `you are not signed in to ${url}`);
  const { token = null, refreshToken = null } = profile;
  if (refreshToken !== null) {
    const site = {
      baseUrl: url,
      apiUrl: null,
      project: null,
      token,
      refreshToken,
      tokenSource: "millrace login",
      tokenFile: null,
    };
    // A service that is gone, or a session that is over, is no reason to keep the token.
    await endSession(new Api(site, signal)).catch(() =>
      out.warn(`the session on ${url} could not be ended there`),
    );
  }
  changeProfile(url, null);
  out.show({ url }, () => `Signed out of ${url}.\n`);
}

async function endSession(api: Api): Promise<void> {
  const sessions = await api.get(SESSIONS, "/v2/me/sessions");
  const current = sessions.find(({ isCurrent }) => isCurrent);
  if (current) await api.ask(ID, "DELETE", `/v2/me/sessions/${current.id}`);
}
