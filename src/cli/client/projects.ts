import { quotaText } from "../../model/usage.ts";
import { PROJECT, PROJECT_DETAILS, PROJECTS } from "../../shapes/people.ts";
import type { Infer } from "../../shapes/shape.ts";
import { usage } from "../failure.ts";
import { type Definitions } from "../options.ts";
import { fields, printableName } from "../output.ts";
import { limiting, type QuotaFlags, quotasWith } from "./quotas.ts";
import { changeProfile } from "./site.ts";
import { asking, asks, type RemoteFlags, type Task, type Texts, theOne } from "./task.ts";

export const COMMANDS: Definitions = {
  projects(command) {
    const list = command.command("list", { isDefault: true }).description("list your projects");
    asks(list, listProjects, "millrace projects");
    asking(command, "create", "create a project; you become its owner", createProject, "models").argument(
      "<name>",
      "the project's name",
    );
    asking(command, "use", "use this project from now on", useProject, "p-1a2b3c4d").argument(
      "<project>",
      "the project's id or name",
    );
    asking(command, "show", "show the project's name and quotas", showProject);
    const change = asking(
      command,
      "change",
      "change the project's name, or what all its calls together may use",
      changeProject,
      "--max-gpu-seconds 36000",
      "--max-concurrent-runs none",
    );
    limiting(change.option("--name <name>", "another name"));
  },
};

async function listProjects({ api, out }: Task): Promise<void> {
  const projects = await api.get(PROJECTS, "/v2/projects");
  const current = await api.project().catch(() => null);
  out.list(projects, {
    "": ({ id }) => (id === current ? "*" : " "),
    PROJECT: ({ id }) => id,
    NAME: ({ name }) => printableName(name),
  });
}

async function createProject({ api, out }: Task, name: string): Promise<void> {
  const made = await api.ask(PROJECT, "POST", "/v2/projects", { body: { name } });
  out.show(made, () => `${made.id}\n`);
  out.note(`millrace projects use ${made.id}`);
}

type ChangeFlags = RemoteFlags & QuotaFlags & Texts<"name">;

async function showProject({ api, out }: Task): Promise<void> {
  const path = `/v2/projects/${await api.project()}`;
  const found = await api.get(PROJECT_DETAILS, path);
  out.show(found, () => describe(found));
}

async function changeProject({ api, flags, out }: Task<ChangeFlags>): Promise<void> {
  const path = `/v2/projects/${await api.project()}`;
  if (flags.name === undefined && quotasWith(flags, null) === undefined)
    throw usage("nothing to change: give --name or a quota");
  const { quotas: before } = await api.get(PROJECT_DETAILS, path);
  const body = { name: flags.name, quotas: quotasWith(flags, before) };
  const changed = await api.ask(PROJECT_DETAILS, "PATCH", path, { body });
  out.show(changed, () => describe(changed));
}

function describe({ id, name, quotas }: Infer<typeof PROJECT_DETAILS>): string {
  return fields([
    ["project", id],
    ["name", printableName(name)],
    ["quotas", quotaText(quotas)],
  ]);
}

async function useProject({ api, out }: Task, wanted: string): Promise<void> {
  const found = theOne(await api.get(PROJECTS, "/v2/projects"), wanted, ({ name }) => name === wanted, {
    none: "you have no project",
    several: "several of your projects have the name",
    hint: "millrace projects list",
  });
  changeProfile(api.site.baseUrl, { project: found.id }, true);
  out.show(found, () => `Now using project ${found.id} (${printableName(found.name)}).\n`);
}
