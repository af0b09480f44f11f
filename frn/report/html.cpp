#include "frn/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "frn/core/text.h"

namespace frn::report::html {
namespace {

// Three bytes as four letters, with = for what is missing at the end (RFC 4648).
std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t k) {
      return i + k < bytes.size() ? static_cast<uint32_t>(static_cast<unsigned char>(bytes[i + k])) : 0U;
    };
    const uint32_t bits = byte(0) << 16U | byte(1) << 8U | byte(2);
    for (size_t k = 0; k < 4; ++k) {
      out += i + k > bytes.size() ? '=' : kLetters[bits >> (18 - 6 * k) & 63U];
    }
  }
  return out;
}

// One column on a phone, two on a laptop. Colours follow the reader's choice of light or dark.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c636b; --line: #dde1e5; --paper: #fff; --bar: #d5e6f3;
  --good: #1a7f4b; --bad: #b3261e; --open: #8a6100;
  --hue-0: #0072b2; --hue-1: #c24f00; --hue-2: #00805d; --hue-3: #b0538a; --hue-4: #a87300; --hue-5: #2f8fc4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --soft: #a0a7ae; --line: #363b41; --paper: #16181b; --bar: #1f4560;
    --good: #5fd39a; --bad: #ff8a80; --open: #e6b450;
    --hue-0: #58b4ec; --hue-1: #ff9a5c; --hue-2: #3fd0a4; --hue-3: #ec9fca; --hue-4: #f2c14e; --hue-5: #9ad4f7; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.25rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0; font-size: 1.8rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.2rem; }
p { margin: .5rem 0; max-width: 44rem; }
.summary { color: var(--soft); font-size: 1.05rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .95rem; }
th, td { padding: .35rem 1.25rem .35rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th:last-child, td:last-child { padding-right: .25rem; }
td.share { min-width: 10rem; background: linear-gradient(var(--bar), var(--bar)) no-repeat left 1rem top 50%; }
td a { color: inherit; text-decoration-color: var(--soft); text-decoration-thickness: 1px; text-underline-offset: .2em; }
tr.inner td { padding-bottom: 0; border-bottom: 0; }
.wide + .wide { margin-top: 1.5rem; }
.strong { font-weight: 600; }
.soft { color: var(--soft); }
.good { color: var(--good); }
.bad { color: var(--bad); }
.open { color: var(--open); }
ul.judged { margin: 0; padding: 0; list-style: none; }
ul.judged li { display: grid; grid-template-columns: 8.5rem 1fr; padding: .55rem 0; border-bottom: 1px solid var(--line); }
ul.judged small { grid-column: 2; color: var(--soft); font-size: .88rem; }
dl { margin: 0; columns: 20rem; column-gap: 2.5rem; font-size: .95rem; }
dl div { display: flex; justify-content: space-between; gap: 1rem; padding: .3rem 0; break-inside: avoid;
  border-bottom: 1px solid var(--line); }
dt { color: var(--soft); }
dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.figures { display: grid; gap: 1.5rem 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; }
figure img { display: block; width: 100%; height: auto; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; }
figure svg > g > rect { fill: none; }
figure svg g[fill="black"] { fill: var(--ink); }
figure svg text, figure svg tspan { font-family: inherit; }
figure svg g { font-family: system-ui, sans-serif; }
figure svg path[stroke="black"] { stroke: var(--soft); }
figure svg path.gridline { stroke: var(--line); stroke-dasharray: none; }
footer { margin-top: 3rem; padding-top: .75rem; color: var(--soft); font-size: .85rem; border-top: 1px solid var(--line); }
@media (max-width: 40rem) {
  body { padding: 1.25rem 1rem; }
  table { font-size: .82rem; }
  th, td { padding-right: .5rem; }
  td.share { min-width: 7.5rem; }
  ul.judged li { display: block; }
  ul.judged strong, ul.judged small { display: block; }
  .wide th:first-child, .wide td:first-child { position: sticky; left: 0; background: var(--paper); }
}
)";

// The colours of charts as gnuplot writes them, in lines and in letters, and the page's, which change with its scheme.
struct ChartColour {
  std::string_view of_lines, of_letters, ours;
};
constexpr ChartColour kColours[]{
    {"rgb(  0, 114, 178)", "rgb(0,114,178)", "var(--hue-0)"},
    {"rgb(213,  94,   0)", "rgb(213,94,0)", "var(--hue-1)"},
    {"rgb(  0, 158, 115)", "rgb(0,158,115)", "var(--hue-2)"},
    {"rgb(204, 121, 167)", "rgb(204,121,167)", "var(--hue-3)"},
    {"rgb(230, 159,   0)", "rgb(230,159,0)", "var(--hue-4)"},
    {"rgb( 86, 180, 233)", "rgb(86,180,233)", "var(--hue-5)"},
    {"rgb(136, 136, 136)", "rgb(136,136,136)", "var(--soft)"},
    {"rgb(221, 221, 221)", "rgb(221,221,221)", "var(--line)"},
    {"rgb(255, 255, 255)", "rgb(255,255,255)", "var(--paper)"},
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::string cell(const Cell& cell, const Column& column) {
  std::string classes = column.numbers ? "number" : "";
  if (!cell.tone.empty()) classes += (classes.empty() ? "" : " ") + escape(cell.tone);
  std::string style;
  if (cell.share) {
    classes += " share";
    // The bar of 100 % takes half of the cell: the number is beside it.
    style = fmt::format(" style=\"background-size: {:.1f}% 70%\"", 50 * std::clamp(*cell.share, 0.0, 1.0));
  }
  const auto text = cell.figure.empty() ? escape(cell.text)
                                        : fmt::format("<a href=\"#{}\">{}</a>", escape(cell.figure), escape(cell.text));
  return fmt::format("<td{}{}>{}</td>", classes.empty() ? "" : " class=\"" + classes + "\"", style, text);
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : one_line(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string table(const Table& table) {
  std::string out = "<div class=\"wide\"><table>\n<thead><tr>";
  for (const auto& column : table.columns) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", column.numbers ? " class=\"number\"" : "", escape(column.title));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    out += (r + 1) % table.together == 0 ? "<tr>" : "<tr class=\"inner\">";
    for (size_t i = 0; i < row.size() && i < table.columns.size(); ++i) out += cell(row[i], table.columns[i]);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string judgements(const std::vector<Judged>& entries) {
  std::string out = "<ul class=\"judged\">\n";
  for (const auto& entry : entries) {
    out += fmt::format("<li><strong class=\"{}\">{}</strong> <span>{}</span><small>{}</small></li>\n",
                       escape(entry.tone), escape(entry.verdict), escape(entry.sentence), escape(entry.grounds));
  }
  return out + "</ul>\n";
}

std::string properties(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out = "<dl>\n";
  for (const auto& [name, value] : entries) {
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value));
  }
  return out + "</dl>\n";
}

std::string figure(std::string_view svg, std::string_view name, std::string_view caption) {
  // Before <svg there is a declaration that belongs to a file of its own.
  std::string drawing(svg.substr(std::min(svg.find("<svg"), svg.size())));
  for (const char* quote : {"'", "\""}) {
    replace_all(drawing, fmt::format("id={}", quote), fmt::format("id={}{}-", quote, escape(name)));
    replace_all(drawing, fmt::format("href={}#", quote), fmt::format("href={}#{}-", quote, escape(name)));
  }
  for (const auto& colour : kColours) {
    replace_all(drawing, colour.of_lines, colour.ours);
    replace_all(drawing, colour.of_letters, colour.ours);
  }
  // gnuplot's own title would show as a hint under the mouse.
  const auto begin = drawing.find("<title>");
  const auto end = drawing.find("</title>");
  if (begin != std::string::npos && end != std::string::npos) {
    drawing.replace(begin, end - begin, "<title>" + escape(caption));
  }
  return fmt::format("<figure id=\"{}\">\n{}\n<figcaption>{}</figcaption>\n</figure>\n", escape(name), drawing,
                     escape(caption));
}

std::string picture(std::string_view png, std::string_view caption) {
  return fmt::format(
      "<figure>\n<img alt=\"{0}\" src=\"data:image/png;base64,{1}\">\n<figcaption>{0}</figcaption>\n</figure>\n",
      escape(caption), base64(png));
}

std::string figures(const std::vector<std::string>& figures) {
  std::string out = "<div class=\"figures\">\n";
  for (const auto& figure : figures) out += figure;
  return out + "</div>\n";
}

std::string paragraph(std::string_view text) { return "<p>" + escape(text) + "</p>\n"; }

std::string section(std::string_view title, const std::string& content) {
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", escape(title), content);
}

std::string page(std::string_view title, std::string_view summary, const std::string& content,
                 std::string_view source) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<header>\n<h1>{0}</h1>\n<p class=\"summary\">{2}</p>\n"
      "</header>\n<main>\n{3}</main>\n<footer>{4}</footer>\n</body>\n</html>\n",
      escape(title), kStyle, escape(summary), content, escape(source));
}

}  // namespace frn::report::html
