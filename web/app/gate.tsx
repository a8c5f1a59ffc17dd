import { Outlet, useRouter } from "@tanstack/react-router";
import { useEffect } from "react";
import { session, useSessionState } from "../api/session.ts";
import { Problem } from "../parts/problem.tsx";
import { useQuery } from "@tanstack/react-query";

/** Lets in who is signed in; everybody else signs in first and comes back to where they wanted to go. */
export function Gate() {
  const state = useSessionState();
  const router = useRouter();
  // The cookie may know who it is.
  const { error, refetch } = useQuery({
    queryKey: ["session"],
    queryFn: async () => (await session.token()) !== null,
    enabled: state === "unknown",
    staleTime: Infinity,
  });
  useEffect(() => {
    if (state !== "out") return;
    const { href } = router.latestLocation;
    void router.navigate({ to: "/sign-in", search: href === "/" ? {} : { to: href }, replace: true });
  }, [state, router]);
  if (state === "unknown" && error) return <Problem error={error} onRetry={() => void refetch()} />;
  return state === "in" ? <Outlet /> : null;
}
