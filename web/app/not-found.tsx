import { Link } from "@tanstack/react-router";
import { Empty } from "../parts/empty.tsx";

export function NotFound() {
  return (
    <main>
      <Empty title="There is no such page">
        <Link to="/" className="text-accent underline">
          Go to the overview
        </Link>
      </Empty>
    </main>
  );
}
