import { useRouter } from "@tanstack/react-router";
import type { ErrorComponentProps } from "@tanstack/react-router";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";

/** What stands in place of a page that failed; the ways to the others stay. */
export function Broken({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const again = (): void => {
    reset();
    void router.invalidate();
  };
  return (
    <Page title="This page failed">
      <Problem error={error} onRetry={again} />
    </Page>
  );
}
