"""How a browser shows the pages of dsckpt report: in light and dark, on paper, narrow and wide, and with keys alone.

Arguments: the program test_tools, which makes the pages, and with --keep FOLDER also where pages and pictures are left. Exits
with 77 where there is no browser.
"""

import base64
import os
import pathlib
import subprocess
import sys
import tempfile

import browser

LEAST_CONTRAST = 4.5
MOST_MILLISECONDS = 2000
WIDTHS = (400, 720, 1600)

# The contrast of each text with what it stands on, by WCAG 2.1; only texts below LEAST_CONTRAST.
CONTRASTS = """(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const color = parse(getComputedStyle(element).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const weak = [];
  for (const element of document.querySelectorAll('h1, h2, h3, p, li, td, th, label, summary, button, select, span, figcaption, text, output')) {
    if (!element.textContent.trim() || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(parse(element.tagName === 'text' ? style.fill : style.color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < %s) weak.push(element.tagName + ' ' + element.textContent.slice(0, 30) + ': ' + ratio.toFixed(2));
  }
  return weak.slice(0, 5);
})()""" % LEAST_CONTRAST

# Texts of one chart that cover each other.
OVERLAPS = """(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const boxes = [...svg.querySelectorAll('text')].map((text) => [text.getBoundingClientRect(), text.textContent]);
    boxes.forEach(([a, one], i) => boxes.slice(i + 1).forEach(([b, other]) => {
      if (a.right > b.left + 1 && b.right > a.left + 1 && a.bottom > b.top + 3 && b.bottom > a.top + 3) found.push(one + ' / ' + other);
    }));
  }
  return found.slice(0, 5);
})()"""

PICKED = "document.getElementById('picked').textContent"
# How many pixels of the first map are of each kind: those of NaN are red.
RED = """(() => {
  const canvas = document.querySelector('#layers canvas[role=img]');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let red = 0;
  for (let i = 0; i < data.length; i += 4) red += data[i] > 200 && data[i + 1] < 90 && data[i + 2] < 90;
  return red;
})()"""

failures = []


def check(said, what):
    if not said:
        failures.append(what)
        print("failed:", what)


def look_at(page, name, folder, view):
    """What has to hold in every look of every page."""
    check(page.complaints() == [], f"{view}: {page.complaints()}")
    check(page.requests() == [], f"{view}: it asks a network for {page.requests()}")
    width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    check(width <= 0, f"{view}: it is {width} pixels wider than the window")
    weak = page.evaluate(CONTRASTS)
    check(weak == [], f"{view}: weak contrast: {weak}")
    overlaps = page.evaluate(OVERLAPS)
    check(overlaps == [], f"{view}: texts cover each other: {overlaps}")
    page.screenshot(folder / f"{view}.png")


def check_looks(page, folder):
    for name in ("planted", "moments"):
        for width in WIDTHS:
            for dark in (False, True):
                page.open(folder / f"{name}.html", width, 900, dark)
                page.wait(f"document.querySelectorAll('#layers canvas[role=img]').length === {24 if name == 'moments' else 6}")
                check(page.evaluate(RED) > 0 or name == "planted", f"{name}: no NaN to be seen")
                look_at(page, name, folder, f"{name}-{width}-{'dark' if dark else 'light'}")


def check_print(page, folder):
    page.open(folder / "planted.html", 900, 900, dark=True)
    page.media(dark=True, printed=True)
    page.wait("getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'")
    check(page.evaluate("getComputedStyle(document.getElementById('bar')).display") == "none", "print: controls are printed")
    look_at(page, "planted", folder, "planted-print")
    pdf = base64.b64decode(page.call("Page.printToPDF", printBackground=True)["data"])
    (folder / "planted.pdf").write_bytes(pdf)
    check(pdf.startswith(b"%PDF") and len(pdf) > 20000, "print: there is no document")


def check_large(page, folder):
    ready = MOST_MILLISECONDS
    for _ in range(3):  # The machine may be busy.
        if ready >= MOST_MILLISECONDS:
            page.open(folder / "large.html", 1600, 900)
            ready = int(page.evaluate("document.documentElement.dataset.ready"))
    size = os.path.getsize(folder / "large.html")
    print(f"1,000 steps of 100 layers with 8 modules: {size} bytes, answers after {ready} ms")
    check(size <= 5_000_000, f"the page has {size} bytes")
    check(ready < MOST_MILLISECONDS, f"the page answers after {ready} ms")
    check(page.evaluate("document.querySelectorAll('#layers canvas[role=img]').length") == 8, "large: eight maps")
    check("steps 50000 to 50" in page.evaluate(PICKED), "large: the first finding is picked: " + page.evaluate(PICKED))
    look_at(page, "large", folder, "large-1600-light")


def check_keys(page, folder):
    page.open(folder / "planted.html", 1280, 900)
    check("step 9000" in page.evaluate(PICKED), "keys: the jump is picked at first")
    page.press("/", "Slash", "/")
    check(page.evaluate("document.activeElement.id") == "filter", "keys: / goes to the filter")
    page.call("Input.insertText", text="*attention*weight")
    page.wait("document.querySelectorAll('#layers figure').length === 1")
    check(page.evaluate("document.querySelectorAll('#findings tbody tr').length") == 3, "keys: the filter leaves three findings")
    page.press("Escape")
    page.wait("document.querySelectorAll('#layers figure').length === 6")
    page.evaluate("document.activeElement.blur()")
    page.press("?", "Slash", "?")
    check(page.evaluate("document.getElementById('help').open"), "keys: ? helps")
    page.screenshot(folder / "planted-help.png", whole=False)
    page.press("Escape")
    check(not page.evaluate("document.getElementById('help').open"), "keys: Escape closes the help")

    # From the top to the first map with Tab alone.
    page.evaluate("document.activeElement.blur()")
    stops = []
    for _ in range(60):
        page.press("Tab")
        stops.append(page.evaluate("document.activeElement.tagName + '#' + document.activeElement.id"))
        if stops[-1] == "CANVAS#":
            break
    check(stops[:5] == ["A#", "INPUT#filter", "SELECT#metric", "SELECT#axis", "BUTTON#help-open"], f"keys: the order of Tab: {stops[:6]}")
    check(stops[-1] == "CANVAS#", "keys: Tab reaches a map")
    check(page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "keys: the focus is visible")
    page.press("Home")
    check("step 0," in page.evaluate(PICKED), "keys: Home goes to the first step: " + page.evaluate(PICKED))
    page.press("ArrowRight")
    check("step 1," in page.evaluate(PICKED), "keys: an arrow goes to the next step")
    page.press("End")
    check("step 18000," in page.evaluate(PICKED), "keys: End goes to the last step")
    before = page.evaluate("document.activeElement.getAttribute('aria-label')")
    for _ in range(3):
        page.press("PageDown")
    after = page.evaluate("document.activeElement.getAttribute('aria-label')")
    check(before != after and "step 18000" in after, f"keys: Page Down goes to another map, which tells its cell: {after}")
    page.press("ArrowDown")
    check("layers.1." in page.evaluate(PICKED), "keys: an arrow goes to the next layer")
    page.screenshot(folder / "planted-keys.png", whole=False)


def check_use(page, folder):
    page.open(folder / "planted.html", 1280, 900)
    page.evaluate("[...document.querySelectorAll('#findings button')].find((b) => b.ariaLabel.includes('NaN')).click()")
    picked = page.evaluate(PICKED)
    check("layers.1.attention.query_key_value.weight" in picked and "step 16000" in picked and "1 NaN" in picked, "a finding leads to its cell: " + picked)
    for metric in page.evaluate("[...document.getElementById('metric').options].map((o) => o.value)"):
        page.evaluate(f"(() => {{ const m = document.getElementById('metric'); m.value = '{metric}'; m.dispatchEvent(new Event('change')); }})()")
        if metric == "bad":
            continue
        check(page.evaluate(RED.replace("querySelector('#layers canvas[role=img]')", "querySelectorAll('#layers canvas[role=img]')[3]")) > 20, f"{metric}: NaN is seen")
    for axis in ("linear", "symlog"):
        page.evaluate(f"(() => {{ const m = document.getElementById('axis'); m.value = '{axis}'; m.dispatchEvent(new Event('change')); }})()")
        look_at(page, "planted", folder, f"planted-{axis}")
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.wait("[...document.querySelectorAll('details')].every((d) => d.querySelector('table'))")
    norms = page.evaluate("[...document.querySelectorAll('#tensor details')][0].querySelectorAll('tbody tr').length")
    check(norms == 28, f"the table of a curve has a row for each step: {norms}")
    look_at(page, "planted", folder, "planted-tables")
    # What a CSV button hands over.
    page.evaluate("URL.createObjectURL = (blob) => { window.given = blob.text(); return 'blob:nothing'; }")
    page.evaluate("document.querySelector('[aria-label=\"CSV: steps\"]').click()")
    lines = page.evaluate("window.given").splitlines()
    check(lines[0] == "step,checkpoint,loss" and lines[2].startswith("1,") and lines[2].endswith(",5"), f"the CSV of steps: {lines[:3]}")


def check_little_known(page, folder):
    for name in ("one", "plain", "quick"):
        page.open(folder / f"{name}.html", 1000, 900)
        look_at(page, name, folder, name)
        findings = page.evaluate("document.querySelector('#findings .body').textContent")
        known = name != "plain"
        check(("are not known: the files were saved without statistics" in findings) != known, f"{name}: says what is not known: {findings[:200]}")
        for section, there in (("geometry", False), ("digests", known)):
            hidden = page.evaluate(f"document.getElementById('{section}').hidden")
            check(hidden != there, f"{name}: the section {section} is{'' if hidden else ' not'} hidden")
    page.open(folder / "planted.html", 1000, 900)
    check("The first NaN is in gpt_neox.layers.1.attention.query_key_value.weight, element 5, at step 16000; step 15000 is the last without."
          in page.evaluate("document.querySelector('#findings .body').textContent"), "the first NaN is told")


def check_strangers(page, folder):
    page.open(folder / "hostile.html", 1280, 900)
    look_at(page, "hostile", folder, "hostile")
    check(page.evaluate("document.title").startswith("</script><img"), "hostile: the title is text: " + page.evaluate("document.title"))
    check(page.evaluate("document.querySelectorAll('img, b').length") == 0, "hostile: names became elements")
    check(page.evaluate("document.querySelectorAll('script').length") == 3, "hostile: there are three scripts")
    page.evaluate("(() => { const s = document.createElement('script'); s.textContent = 'window.taken = 1'; document.body.append(s); })()")
    check(page.evaluate("window.taken === undefined"), "hostile: the policy lets another script run")


def main():
    program = browser.find()
    if program is None:
        print("skipped: there is no Chromium here (Debian: chromium-headless-shell or chromium)")
        return 77
    kept = sys.argv[sys.argv.index("--keep") + 1] if "--keep" in sys.argv else None
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(kept or temporary)
        folder.mkdir(exist_ok=True)
        subprocess.run([sys.argv[1], "[.pages]"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DSCKPT_REPORT_PAGES": str(folder)})
        page = browser.Browser(program)
        try:
            for each in (check_large, check_looks, check_print, check_keys, check_use, check_little_known, check_strangers):
                try:
                    each(page, folder)
                except RuntimeError as error:
                    check(False, f"{each.__name__}: {error}")
        finally:
            page.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
