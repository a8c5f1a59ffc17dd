import { setTimeout as sleep } from "node:timers/promises";
import { ID } from "../../shapes/common.ts";
import { DEVICE_CODES, DEVICE_TOKENS, ME, PROJECTS, SESSIONS } from "../../shapes/people.ts";
import type { DeviceCodes, ProjectRecord } from "../../shapes/people.ts";
import { Api } from "./api.ts";
import { explain, readJson } from "./explain.ts";
import { postJson } from "./http.ts";
import { changeProfile, checkedUrl, claimsOf, type Profile, readProfiles, type Site, USUAL } from "./site.ts";
import { CliFailure, interruptible, usage } from "../failure.ts";
import { type Definitions, examples } from "../options.ts";
import { fields, Output, paint, printableName, relative } from "../output.ts";
import { readStdin, withProgress } from "../terminal.ts";
import { asks, type Switches, type Task, type Texts } from "./task.ts";

type LoginFlags = Texts<"apiUrl" | "project"> & Switches<"token" | "json">;

type Tokens = Required<Pick<Profile, "token" | "refreshToken">>;

export const COMMANDS: Definitions = {
  login(command) {
    command
      .argument("[url]", "management address of the service [MILLRACE_URL]")
      .option("--token", "use a token from MILLRACE_TOKEN or stdin instead of the browser")
      .option("--api-url <url>", "address of the app endpoints, if not the usual port of the same host")
      .option("--project <id>", "the project to use from now on")
      .option("--json", "print one JSON document");
    examples(
      command,
      "millrace login https://millrace.example.com",
      "millrace login --token < token.txt",
    ).action(
      async (url: string | undefined, flags: LoginFlags) =>
        await interruptible(async (signal) => await login(url, flags, signal)),
    );
  },
  logout(command) {
    command
      .argument("[url]", "management address of the service (default: the current one)")
      .option("--json", "print one JSON document");
    examples(command, "millrace logout").action(
      async (url: string | undefined, flags: { json?: boolean }) =>
        await interruptible(async (signal) => await logout(url, new Output(flags), signal)),
    );
  },
  whoami(command) {
    asks(command, whoami, "millrace whoami");
  },
};

async function login(given: string | undefined, flags: LoginFlags, signal: AbortSignal): Promise<void> {
  const out = new Output(flags);
  const url = given ?? process.env["MILLRACE_URL"] ?? readProfiles().current ?? USUAL.baseUrl;
  const baseUrl = checkedUrl(url);
  const apiUrl = flags.apiUrl === undefined ? {} : { apiUrl: checkedUrl(flags.apiUrl) };
  const signedIn = flags.token ? { token: await givenToken() } : await signInDevice(baseUrl, out, signal);
  const site: Site = {
    baseUrl,
    apiUrl: null,
    project: flags.project ?? null,
    token: signedIn.token,
    tokenSource: flags.token ? "you" : "the sign-in",
  };
  // Tried before it is stored: an invalid token makes no profile.
  const projects = await new Api(site, signal).get(PROJECTS, "/v2/projects");
  const project = choose(projects, flags.project ?? claimsOf(signedIn.token).project_id);
  // Replaces the profile as a whole: nothing of an earlier sign-in stays behind.
  changeProfile(baseUrl, null);
  changeProfile(baseUrl, { ...signedIn, ...apiUrl, ...(project && { project: project.id }) }, true);
  const chosen = project ? `, project ${project.id} (${printableName(project.name)})` : "";
  out.show({ url: baseUrl, project: project?.id ?? null }, () => `Signed in to ${baseUrl}${chosen}.\n`);
  if (projects.length > 1) out.note(`${projects.length} projects: millrace projects use ID chooses another`);
  if (projects.length === 0) out.note("no project yet: millrace projects create NAME");
}

async function givenToken(): Promise<string> {
  const token = (process.env["MILLRACE_TOKEN"] ?? String(await readStdin("--token"))).trim();
  if (token === "") throw usage("no token was given", "set MILLRACE_TOKEN, or pipe the token in");
  return token;
}

/** Shows a code, and waits until a person who is signed in approves it. */
async function signInDevice(baseUrl: string, out: Output, signal: AbortSignal): Promise<Tokens> {
  const { status, text } = await postJson(`${baseUrl}/device-authorization`, {}, signal);
  if (status !== 200) throw explain(status, text, { baseUrl } as Site);
  const { deviceAuthResponsePayload: codes } = readJson(DEVICE_CODES, text, baseUrl);
  const code = paint("bold", printableName(codes.user_code), process.stderr);
  // On stderr also with --json: the person who approves needs the code.
  process.stderr.write(
    `Open ${printableName(codes.verification_uri_complete)}\nand approve the code ${code}.\n`,
  );
  return await withProgress("waiting for the approval", out.isJson, () => redeem(baseUrl, codes, signal));
}

async function redeem(
  baseUrl: string,
  { device_code: deviceCode, expires_in: expiresIn, interval }: DeviceCodes,
  signal: AbortSignal,
): Promise<Tokens> {
  const deadline = Date.now() + expiresIn * 1000;
  while (Date.now() < deadline) {
    const { status, text } = await postJson(`${baseUrl}/token`, { device_code: deviceCode }, signal);
    if (status === 200) {
      const { accessToken, refreshToken } = readJson(DEVICE_TOKENS, text, baseUrl);
      return { token: accessToken, refreshToken };
    }
    if (!text.includes("authorization_pending")) break;
    await sleep(interval * 1000, undefined, { signal });
  }
  throw new CliFailure("the code was not approved in time", { hint: `millrace login ${baseUrl}` });
}

function choose(projects: readonly ProjectRecord[], wanted: string | undefined): ProjectRecord | undefined {
  if (wanted === undefined) return projects[0];
  const found = projects.find(({ id }) => id === wanted);
  if (found) return found;
  const ids = projects.map(({ id }) => id).join(", ") || "none";
  throw usage(`you have no project ${JSON.stringify(wanted)}`, `yours: ${ids}`);
}

async function logout(given: string | undefined, out: Output, signal: AbortSignal): Promise<void> {
  const { current, servers } = readProfiles();
  const url = given === undefined ? current : checkedUrl(given);
  const profile = url === null ? undefined : servers[url];
  if (url === null || !profile)
    throw usage(url === null ? "you are not signed in" : `you are not signed in to ${url}`);
  const { token = null, refreshToken } = profile;
  if (refreshToken !== undefined) {
    const site = { baseUrl: url, apiUrl: null, project: null, token, refreshToken };
    // The token goes even if the service is gone or the session is over.
    await endSession(new Api({ ...site, tokenSource: "millrace login" }, signal)).catch(() =>
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

async function whoami({ api, out }: Task): Promise<void> {
  const { baseUrl, apiUrl, tokenSource, token } = api.site;
  // Also the proof that the service takes the token.
  const projects = await api.get(PROJECTS, "/v2/projects");
  const claims = claimsOf(token ?? "");
  const isPerson = claims.project_id === undefined;
  const me = isPerson ? await api.get(ME, "/v2/me") : null;
  const project = await api.project().catch((error: unknown) => {
    if (error instanceof CliFailure) return null;
    throw error;
  });
  const expiresAt = claims.exp === undefined ? null : new Date(claims.exp * 1000).toISOString();
  const document = {
    url: baseUrl,
    api_url: apiUrl,
    project,
    projects: projects.map(({ id }) => id),
    account: me?.email ?? claims.sub ?? null,
    role: claims.role ?? null,
    token_from: tokenSource,
    expires_at: isPerson ? null : expiresAt,
  };
  out.show(document, () =>
    fields([
      ["service", baseUrl],
      ["apps", apiUrl ?? "unknown: set MILLRACE_API_URL"],
      ["project", project ?? "none chosen: millrace projects use ID"],
      [isPerson ? "person" : "account", document.account ?? "unknown"],
      ...(claims.role === undefined ? [] : [["role", claims.role] as const]),
      ["token", isPerson ? `from ${tokenSource}` : `from ${tokenSource}, expires ${relative(expiresAt)}`],
    ]),
  );
}
