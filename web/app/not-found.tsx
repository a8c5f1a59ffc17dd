import { Link } from "@tanstack/react-router";
import { Page } from "../parts/page.tsx";
import { Empty } from "../parts/empty.tsx";

/** What stands at an address that nothing has. */
export function NotFound() {
  return (
    <Page title="Not found">
      <Empty title="There is no such page">
        <Link to="/" className="text-accent underline">
          Go to the overview
        </Link>
      </Empty>
    </Page>
  );
}
