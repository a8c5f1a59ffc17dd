import { useQuery } from "@tanstack/react-query";
import { session, useSessionState } from "./session.ts";
import type { SessionState } from "./session.ts";

/** Whether somebody is signed in; the cookie is asked where that is not known yet. */
export function useSession(): {
  readonly state: SessionState;
  readonly error: Error | null;
  readonly retry: () => void;
} {
  const state = useSessionState();
  const { error, refetch } = useQuery({
    queryKey: ["session"],
    queryFn: async () => (await session.token()) !== null,
    enabled: state === "unknown",
    staleTime: Infinity,
  });
  return { state, error: state === "unknown" ? error : null, retry: () => void refetch() };
}
