import { DeployClient } from "./deploy-client.ts";
import type { TestApp, TestService } from "./service.ts";
import { zipOf } from "./zip.ts";

/** A project beside the owner's, of somebody else. */
export type SecondProject = { readonly projectId: string; readonly token: string };

const LIFE_MS = 60 * 60 * 1000;

/** Makes a project beside the owner's. */
export async function secondProject({ service }: TestService, projectId: string): Promise<SecondProject> {
  const { store, tokens } = service;
  await store.projects.insert({ id: projectId, name: projectId, createdAt: Date.now() });
  const expiresAt = Date.now() + LIFE_MS;
  const { token } = await tokens.issue({ projectId, name: "theirs", role: "admin", expiresAt });
  return { projectId, token };
}

/** Deploys an app into such a project. */
export async function deployInto(
  { service }: TestService,
  project: SecondProject,
  name: string,
  { main, toml = "" }: TestApp,
): Promise<void> {
  const client = new DeployClient({ baseUrl: service.baseUrl, ...project }, name);
  const { status } = await client.deploy(await zipOf({ "main.py": main, "millrace.toml": toml }), {
    cerebrium_toml: toml,
  });
  if (status !== "success") throw new Error(`the deploy of ${name} ended as ${status}`);
}
