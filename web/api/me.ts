import { queryOptions } from "@tanstack/react-query";
import { ask } from "./http.ts";

export type MyProject = { readonly id: string; readonly name: string; readonly role: "owner" | "member" };
export type Me = { readonly id: string; readonly email: string; readonly projects: readonly MyProject[] };

/** The person who is signed in, and their projects. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: ({ signal }) => ask<Me>("/v2/me", { signal }),
  staleTime: 60_000,
});
