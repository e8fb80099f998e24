#include <weft/weft.h>

#include <iostream>

int main() {
  std::cout << "consumer says: " << weft::Placement::shard(0).to_string() << '\n';
}
