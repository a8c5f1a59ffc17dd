import { PROJECT, PROJECTS } from "../../shapes/people.ts";
import { type Definitions } from "../options.ts";
import { printableName } from "../output.ts";
import { changeProfile } from "./site.ts";
import { asking, asks, type Task, theOne } from "./task.ts";

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

async function useProject({ api, out }: Task, wanted: string): Promise<void> {
  const found = theOne(await api.get(PROJECTS, "/v2/projects"), wanted, ({ name }) => name === wanted, {
    none: "you have no project",
    several: "several of your projects have the name",
    hint: "millrace projects list",
  });
  changeProfile(api.site.baseUrl, { project: found.id }, true);
  out.show(found, () => `Now using project ${found.id} (${printableName(found.name)}).\n`);
}
