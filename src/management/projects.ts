import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import type { People } from "../identity/people.ts";
import { requirePerson } from "../identity/principal.ts";
import type { Principal } from "../identity/principal.ts";
import { randomName } from "../kit/ids.ts";
import { NEW_PROJECT, PROJECTS } from "../shapes/people.ts";
import type { Store } from "../store/store.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { record } from "./api/record.ts";
import { line } from "./api/schemas.ts";

export type ProjectParts = {
  readonly store: Store;
  readonly people: Pick<People, "createProject">;
  readonly audit: Pick<Audit, "record">;
};

const TAG = "Projects";
const PATH = "/v2/projects";

/** The projects of whoever asks. */
export function projectOperations({ store, people, audit }: ProjectParts): AnyOperation[] {
  const projectsOf = async (principal: Principal | null) => {
    if (!principal) return [];
    if (principal.projectId === null) return await store.memberships.projectsOf(principal.personId);
    const own = await store.projects.find(principal.projectId);
    return own ? [own] : [];
  };
  const create = async (personId: string, name: string): Promise<string> => {
    for (;;) {
      const id = `p-${randomName(8)}`;
      if (await people.createProject(personId, { id, name })) return id;
    }
  };

  return [
    operation({
      method: "GET",
      path: PATH,
      id: "listProjects",
      tag: TAG,
      summary: "List your projects; for a service account, its own",
      access: "any",
      response: PROJECTS,
      handle: async ({ principal }) => (await projectsOf(principal)).map(({ id, name }) => ({ id, name })),
    }),
    operation({
      method: "POST",
      path: PATH,
      id: "createProject",
      tag: TAG,
      summary: "Create a project; you become its owner",
      access: "person",
      body: z.object({ name: line(100) }),
      response: NEW_PROJECT,
      handle: async (call) => {
        const { name } = call.body;
        const { personId } = requirePerson(call.principal);
        const id = await create(personId, name);
        const params = { project_id: id };
        await record(
          audit,
          { ...call, params },
          { action: "project.create", target: id, before: null, after: { name } },
        );
        return { id, name };
      },
    }),
  ];
}
