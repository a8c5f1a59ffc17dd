import { Page } from "../../parts/page.tsx";

export function RunPage() {
  return <Page title="RunPage">NOT WRITTEN</Page>;
}
