import type { Command } from "commander";
import { ME, PROJECTS } from "../../shapes/people.ts";
import { claimsOf } from "../api/site.ts";
import { CliFailure } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { relative } from "../output/amounts.ts";
import { fields } from "../output/table.ts";
import { withService } from "../task.ts";
import type { Task } from "../task.ts";

/** `millrace whoami` */
export function defineWhoami(command: Command): void {
  examples(remote(command), "millrace whoami").action(withService(whoami));
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
