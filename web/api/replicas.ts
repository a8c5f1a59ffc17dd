import { queryOptions } from "@tanstack/react-query";
import { CONTAINERS } from "../../src/shapes/apps.ts";
import { idOf } from "./apps.ts";
import { ask } from "./http.ts";

/** One replica of an app, which the API calls a container. */
export type { ContainerRecord as Replica } from "../../src/shapes/apps.ts";

/** An app's replicas, kept fresh while they are looked at. */
export function replicasQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["replicas", projectId, appName],
    queryFn: ({ signal }) =>
      ask(CONTAINERS, `/v2/projects/${projectId}/apps/${idOf(projectId, appName)}/containers`, {
        signal,
      }),
    refetchInterval: 5_000,
  });
}
