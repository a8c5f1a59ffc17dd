import type { Command } from "commander";
import { NEW_PROJECT, PROJECTS } from "../../shapes/people.ts";
import { changeProfile } from "../api/profiles.ts";
import { usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { printableName } from "../output/paint.ts";
import { table } from "../output/table.ts";
import { withService } from "../task.ts";
import type { Task } from "../task.ts";

/** `millrace projects [list|create|use]` */
export function defineProjects(command: Command): void {
  const list = remote(command.command("list", { isDefault: true })).description("list your projects");
  examples(list, "millrace projects").action(withService(listProjects));

  const create = remote(command.command("create")).description("create a project; you become its owner");
  create.argument("<name>", "the project's name");
  examples(create, "millrace projects create models").action(withService(createProject));

  const use = remote(command.command("use")).description("use this project from now on");
  use.argument("<project>", "the project's id or name");
  examples(use, "millrace projects use p-1a2b3c4d").action(withService(useProject));
}

async function listProjects({ api, out }: Task): Promise<void> {
  const projects = await api.get(PROJECTS, "/v2/projects");
  const current = await api.project().catch(() => null);
  out.show(projects, () =>
    table(
      ["", "PROJECT", "NAME"],
      projects.map(({ id, name }) => [id === current ? "*" : " ", id, printableName(name)]),
    ),
  );
}

async function createProject({ api, out }: Task, name: string): Promise<void> {
  const made = await api.ask(NEW_PROJECT, "POST", "/v2/projects", { body: { name } });
  out.show(made, () => `${made.id}\n`);
  out.note(`millrace projects use ${made.id}`);
}

async function useProject({ api, out }: Task, wanted: string): Promise<void> {
  const projects = await api.get(PROJECTS, "/v2/projects");
  const [found, another] = projects.filter(({ id, name }) => id === wanted || name === wanted);
  if (!found || another) {
    const problem = another ? "several of your projects have the name" : "you have no project";
    throw usage(`${problem} ${JSON.stringify(wanted)}`, "millrace projects list");
  }
  changeProfile(api.site.baseUrl, { project: found.id }, true);
  out.show(found, () => `Now using project ${found.id} (${printableName(found.name)}).\n`);
}
