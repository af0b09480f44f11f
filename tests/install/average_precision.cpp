#include <frn/metrics/coco_ap.h>

#include <iostream>

int main() {
  const std::vector<int64_t> images{7};
  const std::vector<int64_t> categories{1};
  const std::vector<frn::CocoTruth> truths{{.image_id = 7, .category_id = 1, .box = {10, 10, 50, 50}, .area = 2500}};
  const std::vector<frn::CocoDetection> found{{.image_id = 7, .category_id = 1, .box = {10, 10, 50, 35}, .score = 0.9}};
  const auto scores = frn::evaluate_coco(images, categories, truths, found);
  std::cout << "AP50 " << scores.ap50 << ", AP75 " << scores.ap75 << "\n";
}
