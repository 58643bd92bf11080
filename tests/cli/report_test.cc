// The page that `attenio report` writes: what goes in comes out, and a section that fails leaves the others.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/error.h"
#include "cli/report_figures.h"
#include "cli/report_page.h"
#include "support/files.h"

namespace attenio::cli {
namespace {

int Count(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++count;
  return count;
}

std::string Written(ReportPage* page) { return testing::ReadWhole(page->Write("title", "subtitle")); }

TEST(Report, TablesShowRecordsAndEscapeThem) {
  const testing::TempFolder folder;
  ReportPage page(folder / "page", 1, "attenio");
  page.Table({{{"name", "<a> & b"}, {"value", 1.23456}}, {{"name", "c"}, {"value", nullptr}}},
             {{"name", "Name"}, {"value", "Value", 2}});
  const std::string html = Written(&page);
  EXPECT_NE(html.find("<td class=text>&lt;a&gt; &amp; b</td><td>1.23</td>"), std::string::npos) << html;
  EXPECT_NE(html.find("<td class=text>c</td><td></td>"), std::string::npos) << html;
}

TEST(Report, ACommandThatFailsIsSaidAndTheRestFollows) {
  const testing::TempFolder folder;
  ReportPage page(folder / "page", 1, testing::AttenioPath());
  EXPECT_TRUE(page.Run("nothing", {"bench", "--cases", "no such case", "--json"}).empty());
  page.Heading("After it");
  ASSERT_EQ(page.failures().size(), 1u);
  EXPECT_NE(page.failures()[0].find("attenio bench --cases 'no such case' --json"), std::string::npos)
      << page.failures()[0];
  const std::string html = Written(&page);
  EXPECT_NE(html.find("ended with exit code 2"), std::string::npos);
  EXPECT_NE(html.find("<h2>After it</h2>"), std::string::npos);
}

TEST(Report, AProgramThatDoesNotExistIsAFailure) {
  const testing::TempFolder folder;
  ReportPage page(folder / "page", 1, "/no/such/program");
  EXPECT_TRUE(page.Run("nothing", {"info"}).empty());
  EXPECT_EQ(page.failures().size(), 1u);
}

TEST(Report, FolderThatCannotBeMadeIsRefused) {
  const testing::TempFolder folder;
  testing::WriteWhole(folder / "file", "not a folder");
  EXPECT_THROW(ReportPage(folder / "file/below", 1), InputError);
}

// Two sections with pictures that need no timing: data and pictures lie beside the page, the page contains them.
TEST(Report, SectionsDrawWhatTheirCommandsSay) {
  const testing::TempFolder folder;
  ReportPage page(folder / "page", 1, testing::AttenioPath());
  ReportTraffic(&page);
  ReportAccelerator(&page);
  EXPECT_TRUE(page.failures().empty()) << page.failures()[0];
  const std::string html = Written(&page);
  EXPECT_EQ(Count(html, "<svg"), 3);
  EXPECT_EQ(Count(html, "id=\"gnuplot_canvas\""), 0) << "pictures of one page must not share ids";
  EXPECT_EQ(Count(html, "<?xml"), 0);
  EXPECT_NE(html.find("attenio project --paper --json"), std::string::npos);
  for (const char* file :
       {"io.jsonl", "project.jsonl", "traffic.svg", "traffic.png", "accelerator.png", "overlap.svg"}) {
    EXPECT_GT(std::filesystem::file_size(page.Path(file)), 100u) << file;
  }
}

}  // namespace
}  // namespace attenio::cli
