import { Outlet, useRouter } from "@tanstack/react-router";
import { useEffect } from "react";
import { useSession } from "../api/use-session.ts";
import { Problem } from "../parts/problem.tsx";

/** Lets in who is signed in; everybody else signs in first and comes back to where they wanted to go. */
export function Gate() {
  const { state, error, retry } = useSession();
  const router = useRouter();
  useEffect(() => {
    if (state !== "out") return;
    const { href } = router.latestLocation;
    void router.navigate({ to: "/sign-in", search: href === "/" ? {} : { to: href }, replace: true });
  }, [state, router]);
  if (error) return <Problem error={error} onRetry={retry} />;
  return state === "in" ? <Outlet /> : null;
}
