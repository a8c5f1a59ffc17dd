import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type { TestService } from "../../support/service.ts";

/** A model of every kind of input and output. */
export const MODEL: Readonly<Record<string, string>> = {
  "cog.yaml": 'predict: "predict.py:Predictor"\n',
  "example.txt": "an example",
  "predict.py": `
import os
import tempfile
from typing import List, Optional

from cog import BaseModel, BasePredictor, Input, Path, Secret


class Output(BaseModel):
    text: str
    image: Optional[Path]
    sizes: List[int] = []


class Predictor(BasePredictor):
    def setup(self):
        self.setups = getattr(self, "setups", 0) + 1

    def predict(
        self,
        prompt: str = Input(description="What to draw", min_length=2, max_length=20, regex="^[a-z ]+$"),
        steps: int = Input(default=20, ge=1, le=50),
        scale: float = Input(default=7.5, ge=0),
        kind: str = Input(default="png", choices=["png", "jpg"]),
        image: Path = Input(default=None, description="A picture to begin with"),
        more: List[Path] = Input(default=None),
        seed: Optional[int] = Input(ge=0),
        token: Secret = None,
        lines: int = 0,
        example: bool = False,
    ) -> Output:
        """Draws a picture."""
        self.record_metric("steps", steps)
        print("token", token)
        text = "%s %d %s %s %s %d" % (prompt, steps, scale, kind, seed, self.setups)
        if token:
            text += " " + token.get_secret_value()
        made = None
        if image:
            made = Path(tempfile.mkdtemp()) / "copy.png"
            made.write_bytes(image.read_bytes() * 2)
        if lines:
            made = Path(tempfile.mkdtemp()) / "long.txt"
            made.write_text("x" * 79 + "\\n")
            with made.open("a") as file:
                for _ in range(lines - 1):
                    file.write("x" * 79 + "\\n")
        if example:
            made = Path("example.txt")
        return Output(text=text, image=made, sizes=[os.path.getsize(each) for each in more or []])
`,
};

/** Deploys a folder of these files as it is, without a file of ours; gives the app's name. */
export async function deployFolder(
  test: TestService,
  name: string,
  files: Readonly<Record<string, string>>,
): Promise<string> {
  const folder = path.join(test.directory, "sources", name);
  for (const [file, text] of Object.entries(files)) {
    const target = path.join(folder, file);
    await mkdir(path.dirname(target), { recursive: true });
    await writeFile(target, text);
  }
  test.apps.set(name, await test.service.install(folder));
  return name;
}
